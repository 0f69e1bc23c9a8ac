"""Does a service keep its rhythm? openpilot's rule, with time handed in."""

from collections import deque

# The average may stray this far from the expected rate.
_LOWEST, _HIGHEST = 0.8, 1.2


class FrequencyTracker:
    """Average rate of arrivals over ten seconds, and over one when that fails.

    A reader that looks `update_hz` times a second sees at most so many messages of a service that
    sends `service_hz`; when neither rate is twice the other, beats between them can halve what is
    seen, unless the service is the one waited for (`polled`).
    """

    def __init__(self, service_hz: float, update_hz: float, *, polled: bool) -> None:
        expected = max(min(service_hz, update_hz), 1.0)
        lowest = highest = expected
        if not polled:
            highest = min(expected, update_hz)
            if service_hz >= 2 * update_hz:
                lowest = update_hz
            elif update_hz < 2 * service_hz:
                lowest = expected / 2
        self._lowest_hz = lowest * _LOWEST
        self._highest_hz = highest * _HIGHEST
        self._long = _Mean(int(10 * expected))
        self._short = _Mean(int(expected))
        self._last_ns: int | None = None

    def record(self, now_ns: int) -> None:
        """A message arrived at `now_ns`."""
        if self._last_ns is not None:
            self._long.add(now_ns - self._last_ns)
            self._short.add(now_ns - self._last_ns)
        self._last_ns = now_ns

    @property
    def ok(self) -> bool:
        """Whether the average is in the band; not before the second message."""
        return self._in_band(self._long) or self._in_band(self._short)

    def _in_band(self, mean: "_Mean") -> bool:
        return mean.sum > 0 and (
            self._lowest_hz <= 1e9 * len(mean.intervals) / mean.sum <= self._highest_hz
        )


class _Mean:
    """The last intervals and their sum; integers, so that the sum never drifts."""

    def __init__(self, length: int) -> None:
        self.intervals: deque[int] = deque(maxlen=length)
        self.sum = 0

    def add(self, interval_ns: int) -> None:
        if len(self.intervals) == self.intervals.maxlen:
            self.sum -= self.intervals[0]
        self.intervals.append(interval_ns)
        self.sum += interval_ns
