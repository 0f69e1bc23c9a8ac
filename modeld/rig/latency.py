"""Latency as an open loop sees it: percentiles, deadline misses, omissions put back.

The camera does not wait for the daemon. A frame that was skipped because the daemon was busy has
a latency too, namely until the next answer; leaving it out would hide exactly the slow moments
("coordinated omission"). Frame ids and the camera's period tell which frames those were.
"""

from collections.abc import Iterable, Iterator, Mapping
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


def open_loop(answers: Iterable[Answer], period_ns: int) -> Iterator[Sample]:
    """Latencies of all frames between the first and the last answer, skipped ones included.

    `answers` come in order of frame id; a restart of the ids (or of the daemon) begins anew.
    """
    last: Answer | None = None
    for answer in answers:
        if last is not None and answer.frame_id > last.frame_id:
            for frame_id in range(last.frame_id + 1, answer.frame_id):
                eof = answer.timestamp_eof - (answer.frame_id - frame_id) * period_ns
                yield Sample(frame_id, answer.answered - eof, skipped=True)
        yield Sample(answer.frame_id, answer.answered - answer.timestamp_eof, skipped=False)
        last = answer


@dataclass(frozen=True, slots=True)
class Misses:
    """Frames later than the deadline (skipped ones always are), and the longest unbroken run."""

    total: int
    longest_run: int
    skipped: int


def count_misses(samples: Iterable[Sample], deadline_ns: int) -> Misses:
    """Count deadline misses over consecutive frames."""
    total = longest = run = skipped = 0
    for sample in samples:
        skipped += sample.skipped
        if sample.skipped or sample.latency > deadline_ns:
            total, run = total + 1, run + 1
            longest = max(longest, run)
        else:
            run = 0
    return Misses(total, longest, skipped)


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
        summary = {
            # A bucket's upper end can lie above the largest value in it.
            name: min(self._histogram.get_value_at_percentile(percentile), self._maximum)
            for name, percentile in PERCENTILES.items()
        }
        summary |= {"max": self._maximum, "mean": mean, "std": variance**0.5}
        return {name: round(float(value) / 1e6, 4) for name, value in summary.items()}
