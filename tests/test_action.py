import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modeld.action import (
    Action,
    ActionPolicy,
    acceleration_from_plan,
    curvature_from_plan,
    smooth,
)
from modeld.constants import ACCELERATION, ORIENTATION, ORIENTATION_RATE, T_IDXS, VELOCITY

T = T_IDXS.astype(np.float32)


def plan(
    speed: float = 20.0, acceleration: float = 0.0, yaw_rate: float = 0.0
) -> dict[str, np.ndarray]:
    """A plan of constant acceleration and constant yaw rate."""
    rows = np.zeros((33, 15), np.float32)
    rows[:, VELOCITY.start] = speed + acceleration * T
    rows[:, ACCELERATION.start] = acceleration
    rows[:, ORIENTATION.start + 2] = yaw_rate * T
    rows[:, ORIENTATION_RATE.start + 2] = yaw_rate
    return {"plan": rows}


@given(st.floats(0.05, 2.0), st.floats(-5, 5), st.floats(0, 40))
def test_constant_acceleration_is_found_at_any_delay(
    action_t: float, acceleration: float, speed: float
) -> None:
    found = acceleration_from_plan(
        (speed + acceleration * T).astype(np.float32),
        np.full(33, acceleration, np.float32),
        action_t,
    )
    assert found == pytest.approx(acceleration, abs=40 * 2**-22 / action_t + 1e-5)


@given(st.floats(0.05, 2.0), st.floats(-0.5, 0.5), st.floats(0, 40))
def test_constant_turn_is_yaw_rate_over_speed(
    action_t: float, yaw_rate: float, speed: float
) -> None:
    found = curvature_from_plan(yaw_rate * T, np.full(33, yaw_rate, np.float32), speed, action_t)
    assert found == pytest.approx(yaw_rate / max(speed, 1.0), rel=1e-5, abs=1e-7)


def test_near_times_follow_the_chord_to_300_ms() -> None:
    # Speed steps up inside the first 300 ms: read at 100 ms it is a third of the way to 300 ms.
    speeds = np.where(T < 0.2, 10, 12).astype(np.float32)
    at_300 = float(np.interp(0.3, T_IDXS, speeds))
    expected = 2 * (10 + (at_300 - 10) / 3 - 10) / 0.1
    assert acceleration_from_plan(speeds, np.zeros(33, np.float32), 0.1) == pytest.approx(expected)
    yaws = np.where(T < 0.2, 0, 0.02).astype(np.float32)
    at_300 = float(np.interp(0.3, T_IDXS, yaws))
    found = curvature_from_plan(yaws, np.zeros(33, np.float32), 10.0, 0.1)
    assert found == pytest.approx(2 * (at_300 / 3) / (10 * 0.1))


def test_action_head() -> None:
    policy = ActionPolicy()
    outputs = plan() | {"action": np.array([0.5, -1.0], np.float32)}
    action = policy.update(outputs, 10.0, 0.3, 0.5)
    assert action.desired_curvature == pytest.approx(0.5 / 100)
    assert action.desired_acceleration == pytest.approx(-1.0 * 0.15351827, rel=1e-6)
    assert not action.should_stop
    assert policy.update(outputs, 0.5, 0.3, 0.5).desired_curvature == pytest.approx(0.5)


def test_curvature_head_and_plan() -> None:
    outputs = plan(acceleration=1.0, yaw_rate=0.1)
    from_plan = ActionPolicy().update(outputs, 20.0, 0.4, 0.5)
    assert from_plan.desired_curvature == pytest.approx(0.1 / 20, rel=1e-4)
    assert from_plan.desired_acceleration == pytest.approx(0.15351827, rel=1e-4)
    outputs["desired_curvature"] = np.array([0.02], np.float32)
    from_head = ActionPolicy().update(outputs, 20.0, 0.4, 0.5)
    assert from_head.desired_curvature == pytest.approx(0.02)
    assert from_head.desired_acceleration == from_plan.desired_acceleration


def test_smoothing() -> None:
    assert smooth(1.0, 0.0, 0.3) == pytest.approx(0.1535, abs=5e-5)
    assert smooth(1.0, 0.0, 0.0) == 1.0
    policy = ActionPolicy()
    outputs = plan() | {"action": np.array([0.0, 1.0], np.float32)}
    found = [policy.update(outputs, 10.0, 0.3, 0.5).desired_acceleration for _ in range(5)]
    np.testing.assert_allclose(found, 1 - np.exp(-0.05 / 0.3 * np.arange(1, 6)), rtol=1e-9)


def test_standing_car_keeps_its_curvature_and_may_stop() -> None:
    policy = ActionPolicy()
    braking = {"action": np.array([0.4, -1.0], np.float32)}
    policy.update(plan() | braking, 10.0, 0.3, 0.5)
    standing = policy.update(plan() | braking, 0.3, 0.3, 0.5)
    assert standing.desired_curvature == pytest.approx(0.004)
    assert not standing.should_stop
    assert policy.update(plan() | braking, 0.29, 0.3, 0.5).should_stop
    starting = {"action": np.array([0.0, 0.1], np.float32)}
    assert not policy.update(plan() | starting, 0.0, 0.3, 0.5).should_stop
    assert policy.previous.desired_curvature == pytest.approx(0.004)


def test_nothing_is_desired_at_first() -> None:
    assert ActionPolicy().previous == Action(0.0, 0.0, False)
