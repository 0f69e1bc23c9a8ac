"""When frames come: as soon as they are asked for, or at a camera's rhythm."""

from typing import Protocol

from modeld.clock import Clock
from modeld.constants import MODEL_RUN_HZ
from modeld.replay.device import NS

# From start of frame to end of frame: exposure and read-out of the last row.
READOUT_NS = 20_000_000
_PERIOD_NS = NS // MODEL_RUN_HZ


class Pace(Protocol):
    """Decides which frame number is next, and when."""

    real_time: bool

    def eof(self, number: int) -> int:
        """End of frame of that number, in ns on the source's clock."""
        ...

    def wait(self, last: int, timeout_s: float, newest: bool) -> int | None:
        """Wait for a frame after number `last`; None when none is there within the time.

        `newest` skips to the youngest frame, as a conflating subscription does.
        """
        ...

    def arrived(self, number: int) -> None:
        """The frame of that number has been made and is about to be handed over."""
        ...


class ReplayClock:
    """A clock that jumps to each frame's end and runs on from there in real time.

    So answers carry the recording's times, while durations are those that were really spent.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = -clock.monotonic_ns()

    def monotonic_ns(self) -> int:
        """Nanoseconds on the recording's time line."""
        return self._clock.monotonic_ns() + self._offset

    def sleep(self, seconds: float) -> None:
        """Wait in real time."""
        self._clock.sleep(seconds)

    def jump(self, now: int) -> None:
        """Go forward to `now`; a time already past changes nothing."""
        self._offset += max(0, now - self.monotonic_ns())


class Lockstep:
    """Every frame in order, each as soon as it is asked for; the clock follows the frames."""

    real_time = False

    def __init__(self, clock: ReplayClock) -> None:
        self._clock = clock

    def eof(self, number: int) -> int:
        """A recording starts one period after zero, whenever it is replayed."""
        return (number + 1) * _PERIOD_NS + READOUT_NS

    def wait(self, last: int, timeout_s: float, newest: bool) -> int:
        """The next number, always."""
        return last + 1

    def arrived(self, number: int) -> None:
        """Move the clock to the frame's end: the time it took to decode does not count."""
        self._clock.jump(self.eof(number))


class RealTime:
    """Frames at a fixed rhythm from the first time one is asked for, whether taken or not."""

    real_time = True

    def __init__(self, clock: Clock, rate_hz: float, first: int) -> None:
        self._period_ns = round(NS / rate_hz)
        self._clock = clock
        self._first = first
        self._start: int | None = None

    def eof(self, number: int) -> int:
        """Counted from the first request; only asked for after it."""
        start = self._start if self._start is not None else self._clock.monotonic_ns()
        return start + READOUT_NS + (number - self._first) * self._period_ns

    def wait(self, last: int, timeout_s: float, newest: bool) -> int | None:
        """Sleep until the next frame's end, unless one is already there."""
        now = self._clock.monotonic_ns()
        if self._start is None:
            self._start = now
        ahead = self.eof(last + 1) - now
        if ahead > timeout_s * NS:
            self._clock.sleep(timeout_s)
            return None
        if ahead > 0:
            self._clock.sleep(ahead / NS)
        elif newest:
            return last + 1 + (-ahead // self._period_ns)
        return last + 1

    def arrived(self, number: int) -> None:
        """Time goes on by itself."""
