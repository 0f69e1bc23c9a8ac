"""Latency as an open loop sees it: percentiles, deadline misses, omissions put back.

The camera does not wait for the daemon. A frame that was skipped because the daemon was busy has
a latency too, namely until the next answer; leaving it out would hide exactly the slow moments
("coordinated omission"). Frame ids and the camera's period tell which frames those were.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hdrh.histogram import HdrHistogram

# Name in reports → percentile.
PERCENTILES: Mapping[str, float] = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}
_LOWEST_NS, _HIGHEST_NS, _DIGITS = 1, 120_000_000_000, 3


@dataclass(frozen=True, slots=True)
class Answer:
    """A frame id, its end of frame and the moment its answer was there, in ns on one clock."""

    frame_id: int
    timestamp_eof: int
    answered: int


@dataclass(frozen=True, slots=True)
class Sample:
    """Latency of one scheduled frame in ns; `skipped` when it never got an answer of its own."""

    frame_id: int
    latency: int
    skipped: bool


class OpenLoop:
    """Turns answers, as they come, into latencies of all scheduled frames."""

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._last: Answer | None = None

    def add(self, answer: Answer) -> list[Sample]:
        """Latencies of the frames skipped since the last answer, and of the answered one.

        Answers come in order; a restart of the frame ids begins anew.
        """
        samples = []
        last, self._last = self._last, answer
        if last is not None:
            for frame_id in range(last.frame_id + 1, answer.frame_id):
                eof = answer.timestamp_eof - (answer.frame_id - frame_id) * self._period_ns
                samples.append(Sample(frame_id, answer.answered - eof, skipped=True))
        latency = answer.answered - answer.timestamp_eof
        return [*samples, Sample(answer.frame_id, latency, skipped=False)]

    def finish(self, now: int) -> list[Sample]:
        """Frames that ended at least one period before `now` and were never answered.

        For a daemon that fell silent while the camera went on.
        """
        if self._last is None:
            return []
        last, period = self._last, self._period_ns
        silent = max(0, (now - last.timestamp_eof) // period - 1)
        return [
            Sample(last.frame_id + i, now - last.timestamp_eof - i * period, skipped=True)
            for i in range(1, silent + 1)
        ]


@dataclass
class Misses:
    """Counts frames later than the deadline (skipped ones always are) and their unbroken runs."""

    deadline_ns: int
    frames: int = 0
    skipped: int = 0
    total: int = 0
    longest_run: int = 0
    _run: int = 0

    def add(self, sample: Sample) -> None:
        """Take in the next frame."""
        self.frames += 1
        self.skipped += sample.skipped
        if sample.skipped or sample.latency > self.deadline_ns:
            self.total += 1
            self._run += 1
            self.longest_run = max(self.longest_run, self._run)
        else:
            self._run = 0


class Histogram:
    """Durations in ns to three digits, from 1 ns to two minutes, in constant memory."""

    def __init__(self) -> None:
        self._histogram = HdrHistogram(_LOWEST_NS, _HIGHEST_NS, _DIGITS)
        self.count = 0
        # The histogram's buckets round; the extremes and the sum are kept exactly.
        self._maximum = 0
        self._sum = 0
        self._sum_of_squares = 0

    def record(self, duration: int) -> None:
        """Add one duration; durations beyond the range count as its end."""
        duration = max(duration, 0)
        self._histogram.record_value(min(max(duration, _LOWEST_NS), _HIGHEST_NS))
        self.count += 1
        self._maximum = max(self._maximum, duration)
        self._sum += duration
        self._sum_of_squares += duration * duration

    def summary_ms(self) -> dict[str, float]:
        """Percentiles, max, mean and standard deviation in ms; empty without durations."""
        if not self.count:
            return {}
        mean = self._sum / self.count
        variance = max(0.0, self._sum_of_squares / self.count - mean * mean)
        summary = {name: self._at(percentile) for name, percentile in PERCENTILES.items()}
        summary |= {"max": self._maximum, "mean": mean, "std": variance**0.5}
        return {name: round(float(value) / 1e6, 4) for name, value in summary.items()}

    def _at(self, percentile: float) -> float:
        """The smallest duration that at least this share does not exceed."""
        # The histogram rounds the rank to the nearest, which for few values is a milder one.
        rank = math.ceil(percentile / 100 * self.count - 1e-9)
        value = self._histogram.get_value_at_percentile(100 * rank / self.count)
        # A bucket's upper end can lie above the largest value in it.
        return float(min(value, self._maximum))
