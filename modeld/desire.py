"""Lane-change wishes: from blinkers and steering torque to the network's desire input."""

from dataclasses import dataclass
from enum import IntEnum

from modeld.constants import DT_MODEL, Desire

LANE_CHANGE_SPEED_MIN = 20 * 0.44704  # 20 mph in m/s
LANE_CHANGE_TIME_MAX = 10.0  # s
# The network's own lane-change probability below which the change is over.
_CHANGE_OVER = 0.02


class LaneChangeState(IntEnum):
    """As ModelDataV2.MetaData.laneChangeState counts."""

    OFF = 0
    PRE = 1
    STARTING = 2
    FINISHING = 3


class LaneChangeDirection(IntEnum):
    """As ModelDataV2.MetaData.laneChangeDirection counts."""

    NONE = 0
    LEFT = 1
    RIGHT = 2


@dataclass(frozen=True, slots=True)
class Driver:
    """What the driver does now. Torque is positive to the left; speed in m/s."""

    v_ego: float = 0.0
    left_blinker: bool = False
    right_blinker: bool = False
    steering_pressed: bool = False
    steering_torque: float = 0.0
    left_blindspot: bool = False
    right_blindspot: bool = False


_DESIRES = {
    LaneChangeDirection.LEFT: Desire.LANE_CHANGE_LEFT,
    LaneChangeDirection.RIGHT: Desire.LANE_CHANGE_RIGHT,
}


class DesireHelper:
    """The lane-change state machine: off → pre → starting → finishing → off or pre.

    A blinker arms it, torque to that side with a free blind spot starts it, the network's
    answer ends it. It holds `desire` for the next frame.
    """

    def __init__(self) -> None:
        self.state = LaneChangeState.OFF
        self.direction = LaneChangeDirection.NONE
        self.desire = Desire.NONE
        self._timer = 0.0
        # Weight of the old lane lines: faded out while starting, in again while finishing.
        self._line_weight = 1.0
        self._blinked = False

    def update(self, driver: Driver, lateral_active: bool, lane_change_prob: float) -> None:
        """Advance one frame; `lane_change_prob` is the network's, of the frame just answered."""
        blinking = driver.left_blinker != driver.right_blinker
        if not lateral_active or self._timer > LANE_CHANGE_TIME_MAX:
            self._leave()
        else:
            self._step(driver, blinking, lane_change_prob)
        under_way = self.state in (LaneChangeState.STARTING, LaneChangeState.FINISHING)
        self._timer = self._timer + DT_MODEL if under_way else 0.0
        self._blinked = blinking
        self.desire = _DESIRES.get(self.direction, Desire.NONE) if under_way else Desire.NONE

    def _step(self, driver: Driver, blinking: bool, lane_change_prob: float) -> None:
        fast = driver.v_ego >= LANE_CHANGE_SPEED_MIN
        match self.state:
            case LaneChangeState.OFF:
                # Only a fresh blinker at speed arms: one held since standstill does not.
                if blinking and not self._blinked and fast:
                    self.state = LaneChangeState.PRE
                    self._line_weight = 1.0
                    self.direction = _side(driver)
            case LaneChangeState.PRE:
                self.direction = _side(driver)
                if not blinking or not fast:
                    self._leave()
                elif _pushed(driver, self.direction) and not _blocked(driver, self.direction):
                    self.state = LaneChangeState.STARTING
            case LaneChangeState.STARTING:
                self._line_weight = max(self._line_weight - 2 * DT_MODEL, 0.0)
                if lane_change_prob < _CHANGE_OVER and self._line_weight < 0.01:
                    self.state = LaneChangeState.FINISHING
            case LaneChangeState.FINISHING:
                self._line_weight = min(self._line_weight + DT_MODEL, 1.0)
                if self._line_weight > 0.99:
                    self.direction = LaneChangeDirection.NONE
                    self.state = LaneChangeState.PRE if blinking else LaneChangeState.OFF

    def _leave(self) -> None:
        self.state = LaneChangeState.OFF
        self.direction = LaneChangeDirection.NONE


def _side(driver: Driver) -> LaneChangeDirection:
    return LaneChangeDirection.LEFT if driver.left_blinker else LaneChangeDirection.RIGHT


def _pushed(driver: Driver, direction: LaneChangeDirection) -> bool:
    toward = (
        driver.steering_torque
        if direction is LaneChangeDirection.LEFT
        else (-driver.steering_torque)
    )
    return driver.steering_pressed and toward > 0


def _blocked(driver: Driver, direction: LaneChangeDirection) -> bool:
    left = direction is LaneChangeDirection.LEFT
    return driver.left_blindspot if left else driver.right_blindspot
