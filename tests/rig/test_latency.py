"""Latencies of an open loop: percentiles, skipped frames, misses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modeld.rig.latency import Answer, Histogram, Misses, OpenLoop, Sample

MS = 1_000_000
PERIOD = 50 * MS


def answer(frame_id: int, latency_ms: float) -> Answer:
    eof = 1_000 * MS + frame_id * PERIOD
    return Answer(frame_id, eof, eof + round(latency_ms * MS))


def samples(*answers: Answer) -> list[Sample]:
    loop = OpenLoop(PERIOD)
    return [sample for given in answers for sample in loop.add(given)]


def test_a_stall_is_felt_by_every_frame_that_fell_into_it() -> None:
    # The daemon hangs for 200 ms on frame 1; frames 2 to 4 are never looked at.
    found = samples(answer(0, 10), answer(1, 210), answer(5, 20))
    assert [(s.frame_id, s.latency // MS, s.skipped) for s in found] == [
        (0, 10, False),
        (1, 210, False),
        (2, 170, True),
        (3, 120, True),
        (4, 70, True),
        (5, 20, False),
    ]


def test_without_skipped_frames_latencies_are_as_measured() -> None:
    found = samples(*(answer(n, 12 + n % 3) for n in range(10)))
    assert [s.latency // MS for s in found] == [12 + n % 3 for n in range(10)]
    assert not any(s.skipped for s in found)


def test_ids_that_begin_anew_are_no_gap() -> None:
    found = samples(answer(100, 10), answer(0, 10), answer(1, 10))
    assert [s.frame_id for s in found] == [100, 0, 1]


def test_silence_at_the_end_counts() -> None:
    loop = OpenLoop(PERIOD)
    assert loop.finish(5 * PERIOD) == []
    last = answer(7, 10)
    loop.add(last)
    now = last.timestamp_eof + 4 * PERIOD + 10 * MS
    # Frame 11 ended 10 ms ago: its answer may still come.
    assert [(s.frame_id, s.latency // MS, s.skipped) for s in loop.finish(now)] == [
        (8, 160, True),
        (9, 110, True),
        (10, 60, True),
    ]
    assert loop.finish(last.timestamp_eof + PERIOD) == []


def test_misses_and_their_longest_run() -> None:
    misses = Misses(50 * MS)
    late, skipped, good = Sample(0, 51 * MS, False), Sample(0, 1, True), Sample(0, 50 * MS, False)
    for sample in (good, late, skipped, late, good, late, late, good, good):
        misses.add(sample)
    assert (misses.frames, misses.total, misses.skipped, misses.longest_run) == (9, 5, 1, 3)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1_000, 2_000_000_000), min_size=1, max_size=300))
def test_percentiles_are_numpys_to_three_digits(durations: list[int]) -> None:
    histogram = Histogram()
    for duration in durations:
        histogram.record(duration)
    summary = histogram.summary_ms()
    for name, percentile in (("p50", 50), ("p90", 90), ("p99", 99), ("p99.9", 99.9)):
        # The histogram's rule: the smallest value that at least this share does not exceed.
        wanted = np.percentile(durations, percentile, method="inverted_cdf") / MS
        assert summary[name] == pytest.approx(wanted, rel=2e-3, abs=1e-4)
    assert summary["max"] == pytest.approx(max(durations) / MS, abs=1e-4)
    assert summary["mean"] == pytest.approx(np.mean(durations) / MS, abs=1e-4)
    assert summary["std"] == pytest.approx(np.std(durations) / MS, rel=1e-6, abs=1e-3)
    assert histogram.count == len(durations)


def test_nothing_recorded_has_no_summary() -> None:
    assert Histogram().summary_ms() == {}


def test_durations_beyond_the_range_are_kept_as_its_ends() -> None:
    histogram = Histogram()
    histogram.record(-5)
    histogram.record(10**15)
    summary = histogram.summary_ms()
    assert summary["max"] == 10**15 / MS
    assert summary["p50"] <= 0.001
