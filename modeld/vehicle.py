"""What the car's messages say, read defensively: implausible numbers are counted, not believed."""

import math

from modeld.action import LAT_SMOOTH_SECONDS, LONG_SMOOTH_SECONDS
from modeld.boundary import Inputs
from modeld.config import VehicleConfig
from modeld.constants import DT_MODEL, Desire
from modeld.counts import Count, Report
from modeld.desire import Driver
from modeld.state import Situation

# A picture is answered one period after it was taken, and its answer acts half a period later on
# average.
_FRAME_DELAY = DT_MODEL
_ACTION_DELAY = DT_MODEL / 2
# Delays of actuators lie well below this many seconds.
_MAX_DELAY = 5.0


class Vehicle:
    """Speed, delays and the driver's wishes; configured values stand in until messages come."""

    def __init__(self, messages: Inputs, config: VehicleConfig, report: Report) -> None:
        self._messages = messages
        self._config = config
        self._report = report
        self._v_ego = 0.0
        self._lateral_delay = config.lateral_delay
        self._longitudinal_delay = config.longitudinal_actuator_delay

    def situation(self, desire: Desire) -> Situation:
        """The network's small inputs for a turn that begins with `desire`."""
        messages = self._messages
        if messages.seen["carState"]:
            speed = messages["carState"].vEgo
            self._v_ego = self._plausible("carState.vEgo", speed, -math.inf, self._v_ego)
        if messages.seen["lateralDelay"]:
            self._lateral_delay = self._plausible(
                "lateralDelay.lateralDelay",
                messages["lateralDelay"].lateralDelay,
                0.0,
                self._lateral_delay,
            )
        if messages.updated["carParams"]:
            self._longitudinal_delay = self._plausible(
                "carParams.longitudinalActuatorDelay",
                messages["carParams"].longitudinalActuatorDelay,
                0.0,
                self._longitudinal_delay,
            )
        lateral = self._lateral_delay + LAT_SMOOTH_SECONDS
        longitudinal = self._longitudinal_delay + LONG_SMOOTH_SECONDS
        return Situation(
            desire=desire,
            right_hand_drive=self._right_hand_drive(),
            v_ego=max(self._v_ego, 0.0),
            lateral_delay=lateral,
            lat_action_t=lateral + _FRAME_DELAY + _ACTION_DELAY,
            long_action_t=longitudinal + _FRAME_DELAY + _ACTION_DELAY,
        )

    def driver(self) -> Driver:
        """What the driver does now."""
        car = self._messages["carState"]
        return Driver(
            v_ego=car.vEgo,
            left_blinker=car.leftBlinker,
            right_blinker=car.rightBlinker,
            steering_pressed=car.steeringPressed,
            steering_torque=car.steeringTorque,
            left_blindspot=car.leftBlindspot,
            right_blindspot=car.rightBlindspot,
        )

    def lateral_active(self) -> bool:
        """Whether steering is controlled."""
        return bool(self._messages["carControl"].latActive)

    def _right_hand_drive(self) -> bool:
        if self._messages.seen["driverMonitoringState"]:
            return bool(self._messages["driverMonitoringState"].isRHD)
        return self._config.right_hand_drive

    def _plausible(self, what: str, value: float, lowest: float, last: float) -> float:
        highest = math.inf if lowest == -math.inf else _MAX_DELAY
        if math.isfinite(value) and lowest <= value <= highest:
            return value
        self._report(Count.REJECTED_MESSAGES, f"{what} is {value}; {last} is kept", what)
        return last
