"""Time, handed in, so that nothing else asks the system for it."""

import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock that can also wait."""

    def monotonic_ns(self) -> int:
        """Nanoseconds since an arbitrary start; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait; zero or less returns at once."""
        ...


class SystemClock:
    """CLOCK_MONOTONIC, the clock that openpilot stamps its messages with."""

    def monotonic_ns(self) -> int:
        """Nanoseconds of CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        """Sleep in the kernel; signals do not shorten it."""
        if seconds > 0:
            time.sleep(seconds)
