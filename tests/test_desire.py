from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modeld.constants import Desire
from modeld.desire import DesireHelper, Driver, LaneChangeDirection, LaneChangeState

FAST = 20.0
LEFT = Driver(v_ego=FAST, left_blinker=True)
PUSH_LEFT = replace(LEFT, steering_pressed=True, steering_torque=1.0)
RIGHT = Driver(v_ego=FAST, right_blinker=True)
PUSH_RIGHT = replace(RIGHT, steering_pressed=True, steering_torque=-1.0)


def drive(helper: DesireHelper, driver: Driver, turns: int = 1, prob: float = 0.0) -> None:
    for _ in range(turns):
        helper.update(driver, True, prob)


@pytest.mark.parametrize(
    ("signal", "push", "direction", "desire"),
    [
        (LEFT, PUSH_LEFT, LaneChangeDirection.LEFT, Desire.LANE_CHANGE_LEFT),
        (RIGHT, PUSH_RIGHT, LaneChangeDirection.RIGHT, Desire.LANE_CHANGE_RIGHT),
    ],
)
def test_a_whole_lane_change(
    signal: Driver, push: Driver, direction: LaneChangeDirection, desire: Desire
) -> None:
    helper = DesireHelper()
    drive(helper, Driver(v_ego=FAST))
    drive(helper, signal)
    assert (helper.state, helper.direction) == (LaneChangeState.PRE, direction)
    assert helper.desire is Desire.NONE
    drive(helper, push)
    assert (helper.state, helper.desire) == (LaneChangeState.STARTING, desire)
    # Old lines fade in 10 turns; as long as the network sees a change it goes on.
    drive(helper, signal, 15, prob=0.5)
    assert helper.state is LaneChangeState.STARTING
    drive(helper, signal, prob=0.01)
    assert (helper.state, helper.desire) == (LaneChangeState.FINISHING, desire)
    # New lines come back in 20 turns.
    drive(helper, Driver(v_ego=FAST), 19)
    assert helper.state is LaneChangeState.FINISHING
    drive(helper, Driver(v_ego=FAST))
    assert (helper.state, helper.direction) == (LaneChangeState.OFF, LaneChangeDirection.NONE)
    assert helper.desire is Desire.NONE


def test_fading_takes_ten_turns_at_least() -> None:
    helper = DesireHelper()
    drive(helper, LEFT)
    drive(helper, PUSH_LEFT)
    drive(helper, LEFT, 9, prob=0.0)
    assert helper.state is LaneChangeState.STARTING
    drive(helper, LEFT, prob=0.0)
    assert helper.state is LaneChangeState.FINISHING


def test_held_blinker_arms_the_next_change() -> None:
    helper = DesireHelper()
    drive(helper, LEFT)
    drive(helper, PUSH_LEFT)
    drive(helper, LEFT, 11 + 20)
    assert helper.state is LaneChangeState.PRE


@pytest.mark.parametrize(
    "driver",
    [
        Driver(v_ego=8.9, left_blinker=True),  # below 20 mph
        Driver(v_ego=FAST, left_blinker=True, right_blinker=True),  # hazard lights
        Driver(v_ego=FAST),
    ],
)
def test_what_does_not_arm(driver: Driver) -> None:
    helper = DesireHelper()
    drive(helper, driver, 3)
    assert helper.state is LaneChangeState.OFF


def test_blinker_held_since_standstill_does_not_arm() -> None:
    helper = DesireHelper()
    drive(helper, replace(LEFT, v_ego=0.0))
    drive(helper, LEFT, 5)
    assert helper.state is LaneChangeState.OFF
    drive(helper, Driver(v_ego=FAST))
    drive(helper, LEFT)
    assert helper.state is LaneChangeState.PRE


@pytest.mark.parametrize(
    "driver",
    [
        replace(PUSH_LEFT, steering_torque=-1.0),
        replace(PUSH_LEFT, steering_pressed=False),
        replace(PUSH_LEFT, left_blindspot=True),
        replace(PUSH_LEFT, steering_torque=0.0),
    ],
)
def test_what_does_not_start(driver: Driver) -> None:
    helper = DesireHelper()
    drive(helper, LEFT)
    drive(helper, driver, 5)
    assert helper.state is LaneChangeState.PRE
    drive(helper, replace(PUSH_LEFT, right_blindspot=True))  # the other side does not matter
    assert helper.state is LaneChangeState.STARTING


@pytest.mark.parametrize("driver", [Driver(v_ego=FAST), replace(LEFT, v_ego=8.0)])
def test_armed_change_is_called_off(driver: Driver) -> None:
    helper = DesireHelper()
    drive(helper, LEFT)
    drive(helper, driver)
    assert (helper.state, helper.direction) == (LaneChangeState.OFF, LaneChangeDirection.NONE)


def test_direction_follows_the_blinker_until_started() -> None:
    helper = DesireHelper()
    drive(helper, LEFT)
    drive(helper, RIGHT)
    assert (helper.state, helper.direction) == (LaneChangeState.PRE, LaneChangeDirection.RIGHT)


def test_inactive_steering_ends_it_at_once() -> None:
    helper = DesireHelper()
    drive(helper, LEFT)
    drive(helper, PUSH_LEFT)
    helper.update(PUSH_LEFT, False, 0.5)
    assert (helper.state, helper.desire) == (LaneChangeState.OFF, Desire.NONE)


def test_a_change_that_never_ends_is_given_up_after_ten_seconds() -> None:
    helper = DesireHelper()
    drive(helper, LEFT)
    drive(helper, PUSH_LEFT)
    drive(helper, LEFT, 199, prob=0.9)
    assert helper.state is LaneChangeState.STARTING
    drive(helper, LEFT, 2, prob=0.9)
    assert helper.state is LaneChangeState.OFF


drivers = st.builds(
    Driver,
    v_ego=st.sampled_from([0.0, FAST]),
    left_blinker=st.booleans(),
    right_blinker=st.booleans(),
    steering_pressed=st.booleans(),
    steering_torque=st.sampled_from([-1.0, 0.0, 1.0]),
    left_blindspot=st.booleans(),
    right_blindspot=st.booleans(),
)


@given(st.lists(st.tuples(drivers, st.booleans(), st.sampled_from([0.0, 0.9])), max_size=60))
def test_a_desire_always_belongs_to_a_change_under_way(
    steps: list[tuple[Driver, bool, float]],
) -> None:
    helper = DesireHelper()
    for driver, active, prob in steps:
        helper.update(driver, active, prob)
        under_way = helper.state in (LaneChangeState.STARTING, LaneChangeState.FINISHING)
        assert (helper.desire is not Desire.NONE) == under_way
        if helper.state is LaneChangeState.OFF:
            assert helper.direction is LaneChangeDirection.NONE
        if under_way:
            assert helper.direction is not LaneChangeDirection.NONE
