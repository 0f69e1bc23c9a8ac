"""Learning rates over the steps of a run."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile.training.schedule import SHAPES, Schedule
from modeld.errors import ModeldError


def test_known_rates() -> None:
    assert [Schedule("constant", 2.0, 4).rate_at(s) for s in range(5)] == [2.0] * 5
    assert [Schedule("linear", 2.0, 4).rate_at(s) for s in range(5)] == [2, 1.5, 1, 0.5, 0]
    warmed = Schedule("linear", 2.0, 6, warm_up=2)
    assert [warmed.rate_at(s) for s in range(7)] == [1, 2, 2, 1.5, 1, 0.5, 0]
    cosine = Schedule("cosine", 2.0, 6)
    assert cosine.rate_at(0) == 2 and math.isclose(cosine.rate_at(2), 1.5)
    assert cosine.rate_at(6) == 0 == cosine.rate_at(100)


@given(st.sampled_from(SHAPES), st.floats(0, 10), st.integers(1, 99), st.integers(0, 98))
def test_rates_rise_then_fall(shape: str, rate: float, steps: int, warm_up: int) -> None:
    warm_up = min(warm_up, steps - 1)
    rates = [Schedule(shape, rate, steps, warm_up).rate_at(step) for step in range(steps + 1)]
    assert all(0 <= value <= rate for value in rates)
    assert rates[:warm_up] == sorted(rates[:warm_up])
    assert rates[warm_up:] == sorted(rates[warm_up:], reverse=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("exponential", 0.1, 10), "schedule 'exponential' is unknown; use one of constant"),
        (("linear", -0.1, 10), "learning rate -0.1 is no rate"),
        (("linear", math.nan, 10), "learning rate nan is no rate"),
        (("linear", 0.1, 10, 10), "a warm-up of 10 steps in a run of 10 leaves none"),
        (("linear", 0.1, 0), "a warm-up of 0 steps in a run of 0"),
    ],
)
def test_wrong_values_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ModeldError, match=message):
        Schedule(*arguments)
