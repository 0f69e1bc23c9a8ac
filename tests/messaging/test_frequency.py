"""The rhythm of a service, by numbers computed by hand from the rule."""

import pytest

from modeld.messaging.frequency import FrequencyTracker


def tracker_fed(
    service_hz: float, update_hz: float, period_s: float, count: int, *, polled: bool = False
) -> FrequencyTracker:
    tracker = FrequencyTracker(service_hz, update_hz, polled=polled)
    for index in range(count):
        tracker.record(round(index * period_s * 1e9))
    return tracker


# service Hz, update Hz, polled -> slowest and fastest accepted rate
BANDS = [
    (20.0, 20.0, True, 16.0, 24.0),
    (20.0, 20.0, False, 8.0, 24.0),  # beats may hide every second message
    (100.0, 20.0, False, 16.0, 24.0),  # a fast service is seen at our pace
    (4.0, 20.0, False, 3.2, 4.8),  # a slow one at its own
    (30.0, 20.0, False, 8.0, 24.0),
]


@pytest.mark.parametrize(("service", "update", "polled", "lowest", "highest"), BANDS)
def test_band(service: float, update: float, polled: bool, lowest: float, highest: float) -> None:
    for rate, ok in [
        (lowest * 1.001, True),
        (lowest * 0.999, False),
        (highest * 0.999, True),
        (highest * 1.001, False),
    ]:
        tracker = tracker_fed(service, update, 1 / rate, 300, polled=polled)
        assert tracker.ok is ok, rate


def test_nothing_is_known_before_the_second_message() -> None:
    assert not tracker_fed(20.0, 20.0, 0.05, 0).ok
    assert not tracker_fed(20.0, 20.0, 0.05, 1).ok
    assert tracker_fed(20.0, 20.0, 0.05, 2).ok


def test_two_messages_at_one_instant_are_no_rate() -> None:
    assert not tracker_fed(20.0, 20.0, 0.0, 5).ok


def test_the_last_second_excuses_ten_bad_ones() -> None:
    tracker = FrequencyTracker(20.0, 20.0, polled=True)
    now = 0
    for _ in range(200):  # 10 Hz, too slow
        now += 100_000_000
        tracker.record(now)
    assert not tracker.ok
    for index in range(25):
        now += 50_000_000
        tracker.record(now)
        if index < 10:
            assert not tracker.ok
    assert tracker.ok


def test_ten_good_seconds_excuse_a_bad_one() -> None:
    tracker = FrequencyTracker(20.0, 20.0, polled=True)
    now = 0
    for _ in range(200):
        now += 50_000_000
        tracker.record(now)
    for _ in range(10):
        now += 100_000_000
        tracker.record(now)
    assert tracker.ok
