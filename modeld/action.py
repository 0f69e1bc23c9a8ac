"""What the car should do now: desired curvature and acceleration out of the network's answer."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modeld.constants import (
    ACCELERATION,
    DT_MODEL,
    ORIENTATION,
    ORIENTATION_RATE,
    T_IDXS,
    VELOCITY,
)

Array = npt.NDArray[np.float32]

LAT_SMOOTH_SECONDS = 0.0
LONG_SMOOTH_SECONDS = 0.3
# Below this speed (m/s) steering commands are noise: the last one is kept.
MIN_LAT_CONTROL_SPEED = 0.3
# Dividing by speed (m/s) stops here.
_MIN_SPEED = 1.0
# A plan read closer than this (s) amplifies its noise; nearer times follow the chord to here.
_MIN_STABLE_DELAY = 0.3
_STOP_SPEED = 0.3  # m/s
_STOP_ACCELERATION = 0.1  # m/s²


@dataclass(frozen=True, slots=True)
class Action:
    """Curvature in 1/m (left positive as in the plan), acceleration in m/s²."""

    desired_curvature: float = 0.0
    desired_acceleration: float = 0.0
    should_stop: bool = False


def smooth(value: float, previous: float, tau: float) -> float:
    """Exponential smoothing with time constant `tau` seconds at the model's rate; 0 = none."""
    alpha = 1 - np.exp(-DT_MODEL / tau) if tau > 0 else 1.0
    return float(alpha * value + (1 - alpha) * previous)


def _at(time: float, series: Array, now: float) -> float:
    """`series` over T_IDXS read at `time` seconds, along the chord from `now` when too near."""
    if time >= _MIN_STABLE_DELAY:
        return float(np.interp(time, T_IDXS, series))
    stable = float(np.interp(_MIN_STABLE_DELAY, T_IDXS, series))
    return now + time / _MIN_STABLE_DELAY * (stable - now)


def acceleration_from_plan(speeds: Array, accelerations: Array, action_t: float) -> float:
    """Constant-jerk acceleration that reaches the planned speed `action_t` seconds from now.

    `speeds` (m/s) and `accelerations` (m/s²) are (33,) along T_IDXS.
    """
    now = float(speeds[0])
    target = _at(action_t, speeds, now)
    return 2 * (target - now) / action_t - float(accelerations[0])


def curvature_from_plan(yaws: Array, yaw_rates: Array, v_ego: float, action_t: float) -> float:
    """Curvature (1/m) that reaches the planned heading `action_t` seconds from now.

    `yaws` (rad) and `yaw_rates` (rad/s) are (33,) along T_IDXS; heading starts at zero.
    """
    speed = max(v_ego, _MIN_SPEED)
    target = _at(action_t, yaws, 0.0)
    return 2 * target / (speed * action_t) - float(yaw_rates[0]) / speed


class ActionPolicy:
    """Chooses and smooths the action; keeps the last one, which is what was published."""

    def __init__(self) -> None:
        self.previous = Action()

    def update(
        self, outputs: Mapping[str, Array], v_ego: float, lat_action_t: float, long_action_t: float
    ) -> Action:
        """The action for parsed `outputs` at `v_ego` m/s, acting after the two delays (s).

        Networks with an `action` head give lateral acceleration and acceleration; those with
        `desired_curvature` give that; all others are read off their plan.
        """
        plan = outputs["plan"]
        if "action" in outputs:
            lateral, acceleration = (float(x) for x in outputs["action"])
            curvature = lateral / max(_MIN_SPEED, v_ego) ** 2
        else:
            acceleration = acceleration_from_plan(
                plan[:, VELOCITY][:, 0], plan[:, ACCELERATION][:, 0], long_action_t
            )
            if "desired_curvature" in outputs:
                curvature = float(outputs["desired_curvature"][0])
            else:
                curvature = curvature_from_plan(
                    plan[:, ORIENTATION][:, 2], plan[:, ORIENTATION_RATE][:, 2], v_ego, lat_action_t
                )
        self.previous = self._smoothed(curvature, acceleration, v_ego)
        return self.previous

    def _smoothed(self, curvature: float, acceleration: float, v_ego: float) -> Action:
        last = self.previous
        stop = v_ego < _STOP_SPEED and acceleration < _STOP_ACCELERATION
        if v_ego > MIN_LAT_CONTROL_SPEED:
            curvature = smooth(curvature, last.desired_curvature, LAT_SMOOTH_SECONDS)
        else:
            curvature = last.desired_curvature
        acceleration = smooth(acceleration, last.desired_acceleration, LONG_SMOOTH_SECONDS)
        return Action(curvature, acceleration, stop)
