"""When frames come."""

from hypothesis import given, settings
from hypothesis import strategies as st

from modeld.fakes.clock import FakeClock
from modeld.replay.pace import READOUT_NS, Lockstep, RealTime, ReplayClock

PERIOD = 50_000_000


def test_lockstep_gives_every_frame_at_once_and_moves_the_clock() -> None:
    real = FakeClock()
    clock = ReplayClock(real)
    pace = Lockstep(clock)
    for number in range(5):
        assert pace.wait(number - 1, 0.1, newest=True) == number
        pace.arrived(number)
        assert clock.monotonic_ns() == pace.eof(number) == (number + 1) * PERIOD + READOUT_NS
    assert real.monotonic_ns() == FakeClock().monotonic_ns()


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**10)), max_size=20))
def test_the_replay_clock_never_goes_back(steps: list[tuple[int, int]]) -> None:
    real = FakeClock()
    clock = ReplayClock(real)
    last = clock.monotonic_ns()
    for passed, jump in steps:
        real.advance(passed)
        clock.jump(jump)
        assert clock.monotonic_ns() >= max(last + passed, jump)
        last = clock.monotonic_ns()


def test_the_replay_clock_runs_on_between_frames() -> None:
    real = FakeClock()
    clock = ReplayClock(real)
    clock.jump(1_000)
    clock.sleep(0.25)
    assert clock.monotonic_ns() == 1_000 + 250_000_000


def test_real_time_waits_for_the_end_of_each_frame() -> None:
    clock = FakeClock()
    pace = RealTime(clock, 20, first=7)
    start = clock.monotonic_ns()
    for number in (7, 8, 9):
        assert pace.wait(number - 1, 0.1, newest=True) == number
        assert clock.monotonic_ns() == start + READOUT_NS + (number - 7) * PERIOD


def test_real_time_gives_up_after_the_timeout() -> None:
    clock = FakeClock()
    pace = RealTime(clock, 20, first=0)
    assert pace.wait(-1, 0.1, newest=True) == 0
    now = clock.monotonic_ns()
    assert pace.wait(0, 0.02, newest=True) is None
    assert clock.monotonic_ns() == now + 20_000_000
    assert pace.wait(0, 0.1, newest=True) == 1


def test_real_time_skips_to_the_newest_frame_but_not_for_queues() -> None:
    clock = FakeClock()
    pace = RealTime(clock, 20, first=0)
    assert pace.wait(-1, 0.1, newest=True) == 0
    clock.advance(3 * PERIOD + 1)
    assert pace.wait(0, 0.1, newest=False) == 1
    assert pace.wait(0, 0.1, newest=True) == 3
    assert pace.wait(3, 0.0, newest=True) is None


def test_the_rate_sets_the_period() -> None:
    clock = FakeClock()
    pace = RealTime(clock, 40, first=0)
    assert pace.wait(-1, 0.1, newest=True) == 0
    assert pace.eof(3) - pace.eof(0) == 75_000_000
