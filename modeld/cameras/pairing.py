"""Pairs the narrow and the wide camera's frames by their start-of-frame times.

The rules are those of a device whose two cameras are triggered together: the main camera sets
the pace, the extra camera follows, and a pair further apart than 10 ms is reported but used.
Where timestamps cannot be compared (they stand still, jump back, or the cameras count from
different origins), frames are paired in order of arrival, so that the network keeps seeing.
"""

from dataclasses import dataclass

from modeld.cameras.frame import Frame, FrameSource, FrameStream
from modeld.clock import Clock
from modeld.counts import Count, Report
from modeld.errors import ModeldError

# Half a frame period: the main camera's next frame is at least this much younger than the last
# extra frame, the extra frame of one moment is at most this much older than the main one.
_HALF_PERIOD_NS = 25_000_000
OUT_OF_SYNC_NS = 10_000_000
# An extra frame from further in the future than this was stamped by another clock.
_OTHER_CLOCK_NS = 1_000_000_000

RECEIVE_TIMEOUT_S = 0.1
# So many waits in a row for the extra camera, a second, and it counts as silent.
SILENT_AFTER = 10


@dataclass(frozen=True, slots=True)
class FramePair:
    """What one turn looks at. With one camera, or a silent second one, `extra` is `main`.

    `received` is when the main frame came, in ns on the clock.
    """

    main: Frame
    extra: Frame
    received: int


class _Camera:
    """A stream that notices timestamps that do not advance and ids that jump back."""

    def __init__(self, name: str, stream: FrameStream, report: Report) -> None:
        self._name = name
        self._stream = stream
        self._report = report
        self.last: Frame | None = None

    def receive(self, timeout_s: float = RECEIVE_TIMEOUT_S) -> tuple[Frame, bool] | None:
        """The next frame and whether its time can be trusted; None when none came in time."""
        frame = self._stream.receive(timeout_s)
        if frame is None:
            return None
        last, self.last = self.last, frame
        if last is None:
            return frame, True
        if frame.frame_id < last.frame_id:
            self._report(
                Count.FRAME_IDS_BACK,
                f"{self._name} camera: frame id went from {last.frame_id} back to "
                f"{frame.frame_id}; taken as a restarted camera",
                self._name,
            )
        if frame.timestamp_sof <= last.timestamp_sof:
            self._report(
                Count.TIMESTAMPS_STALLED,
                f"{self._name} camera: start of frame {frame.frame_id} is {frame.timestamp_sof} "
                f"ns, not after {last.timestamp_sof} ns; paired in order of arrival",
                self._name,
            )
            return frame, False
        return frame, True


class FramePairer:
    """Receives pairs from a source; `report` hears of every fault."""

    def __init__(self, source: FrameSource, clock: Clock, report: Report) -> None:
        main = source.narrow if source.narrow is not None else source.wide
        if main is None:
            raise ModeldError("the frame source has neither a narrow nor a wide camera")
        self.wide_only = source.narrow is None
        self._main = _Camera("wide" if self.wide_only else "narrow", main, report)
        two = source.narrow is not None and source.wide is not None
        self._extra = _Camera("wide", source.wide, report) if two and source.wide else None
        self._clock = clock
        self._report = report
        # A main frame that still waits for its extra frame.
        self._waiting: Frame | None = None
        self._received = 0
        self._by_arrival = False
        # Waits for the extra camera since its last frame.
        self._missed = 0

    def receive(self) -> FramePair | None:
        """The next pair, or None when a camera gave nothing for 100 ms.

        An extra camera that has been silent for a second is no longer waited for: the main one
        is paired with itself until the extra one gives a frame again. Raises EndOfStreamError
        with a recording's last frame gone.
        """
        if self._waiting is None and not self._receive_main():
            return None
        main = self._waiting
        if main is None:
            return None
        extra = main if self._extra is None else self._receive_extra(self._extra, main)
        if extra is None:
            return None
        self._waiting = None
        return FramePair(main, extra, self._received)

    def _receive_main(self) -> bool:
        while (received := self._main.receive()) is not None:
            frame, timed = received
            ahead = self._ahead_of_extra(frame)
            if ahead or not timed:
                self._waiting, self._by_arrival = frame, not timed
                self._received = self._clock.monotonic_ns()
                return True
        return False

    def _ahead_of_extra(self, frame: Frame) -> bool:
        last = self._extra.last if self._extra is not None else None
        if last is None:
            return True
        lead = frame.timestamp_sof - last.timestamp_sof
        return lead >= _HALF_PERIOD_NS or lead < -_OTHER_CLOCK_NS

    def _receive_extra(self, camera: _Camera, main: Frame) -> Frame | None:
        while (received := camera.receive(self._patience_s)) is not None:
            self._missed = 0
            frame, timed = received
            lag = main.timestamp_sof - frame.timestamp_sof
            if lag >= _HALF_PERIOD_NS and timed and not self._by_arrival:
                continue
            if abs(lag) > OUT_OF_SYNC_NS:
                self._report(
                    Count.OUT_OF_SYNC,
                    f"frames out of sync by {abs(lag) / 1e6:.1f} ms: main {main.frame_id} at "
                    f"{main.timestamp_sof} ns, extra {frame.frame_id} at {frame.timestamp_sof} ns",
                )
            return frame
        return self._without_extra(main)

    @property
    def _patience_s(self) -> float:
        return RECEIVE_TIMEOUT_S if self._missed < SILENT_AFTER else 0.0

    def _without_extra(self, main: Frame) -> Frame | None:
        """What to pair `main` with when the extra camera gave nothing."""
        self._missed += 1
        if self._missed > SILENT_AFTER:
            self._report(
                Count.WIDE_MISSING,
                f"wide camera: silent since before narrow frame {main.frame_id}; the network sees "
                "the narrow one alone until it is back: see to the camera",
                "silent",
            )
            return main
        self._report(
            Count.WIDE_MISSING,
            f"wide camera: no frame within {RECEIVE_TIMEOUT_S * 1e3:.0f} ms for narrow frame "
            f"{main.frame_id}, which waits; see to the camera, or serve the narrow one alone",
        )
        if self._missed == SILENT_AFTER:
            self._waiting = None  # a second old by now
        return None
