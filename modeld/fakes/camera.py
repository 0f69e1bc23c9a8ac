"""Cameras that play a script."""

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np

from modeld.cameras.frame import EndOfStreamError, Frame, FrameLayout
from modeld.cameras.nv12 import packed_layout
from modeld.fakes.clock import FakeClock

PERIOD_NS = 50_000_000


class FakeStream:
    """Gives what it was told to: frames, and None for a time-out; then the stream ends.

    With a clock, a frame is received at its end of frame at the earliest, and a time-out takes
    its time.
    """

    def __init__(self, script: Iterable[Frame | None], clock: FakeClock | None = None) -> None:
        self._script = deque(script)
        self._clock = clock

    def receive(self, timeout_s: float) -> Frame | None:
        """The next item of the script. Raises EndOfStreamError after the last."""
        if not self._script:
            raise EndOfStreamError
        frame = self._script.popleft()
        if self._clock is not None:
            now = self._clock.monotonic_ns()
            if frame is None:
                self._clock.sleep(timeout_s)
            elif frame.timestamp_eof > now:
                self._clock.set(frame.timestamp_eof)
        return frame


class FakeCamera:
    """A frame source of scripted streams."""

    def __init__(self, narrow: FakeStream | None, wide: FakeStream | None) -> None:
        self.narrow = narrow
        self.wide = wide
        self.closed = False

    def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True


def fake_frame(
    frame_id: int,
    sof: int | None = None,
    layout: FrameLayout | None = None,
    shade: int | None = None,
) -> Frame:
    """An evenly grey frame; by default 20 Hz, 16x8 pixels, and a shade of its own."""
    layout = packed_layout(16, 8) if layout is None else layout
    sof = (frame_id + 1) * PERIOD_NS if sof is None else sof
    value = frame_id % 251 if shade is None else shade
    data = np.full(layout.bytes, value, np.uint8)
    return Frame(data, layout, frame_id, sof, sof + 20_000_000)


def fake_frames(count: int, first: int = 0, layout: FrameLayout | None = None) -> Iterator[Frame]:
    """`count` consecutive frames at 20 Hz."""
    return (fake_frame(first + i, layout=layout) for i in range(count))
