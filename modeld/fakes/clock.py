"""A clock that moves only when told."""


class FakeClock:
    """Starts at `start_ns`; `sleep` and `advance` move it, nothing else does."""

    def __init__(self, start_ns: int = 1_000_000_000) -> None:
        self._now_ns = start_ns

    def monotonic_ns(self) -> int:
        """The time set so far, in nanoseconds."""
        return self._now_ns

    def sleep(self, seconds: float) -> None:
        """Move on by `seconds`, without waiting."""
        if seconds > 0:
            self.advance(round(seconds * 1e9))

    def advance(self, nanoseconds: int) -> None:
        """Move on by `nanoseconds`; a clock that never goes back takes no negative step."""
        if nanoseconds < 0:
            raise ValueError(f"a monotonic clock cannot move by {nanoseconds} ns")
        self._now_ns += nanoseconds

    def set(self, now_ns: int) -> None:
        """Jump to `now_ns`, at or after the present."""
        self.advance(now_ns - self._now_ns)
