"""The driving network's numbers: grids, head widths, slices inside heads, thresholds.

They belong to the networks that openpilot publishes (`ModelConstants`, `Plan`, `Meta` there);
a network trained elsewhere keeps the same grids or its messages mean something else.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

MODEL_RUN_HZ = 20
# Seconds from one picture to the next; also the assumed age of a picture when it is answered.
DT_MODEL = 1 / MODEL_RUN_HZ

IDX_N = 33


def _quadratic_grid(end: float) -> npt.NDArray[np.float64]:
    # Dense near the car, where control needs it: end * (i / 32) ** 2.
    grid = end * (np.arange(IDX_N) / (IDX_N - 1)) ** 2
    grid.flags.writeable = False
    return grid


T_IDXS = _quadratic_grid(10.0)  # s, of plan rows
X_IDXS = _quadratic_grid(192.0)  # m ahead, of lane-line and road-edge points
LEAD_T_IDXS = (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)  # s, of a lead's trajectory
LEAD_T_OFFSETS = (0.0, 2.0, 4.0)  # s, the moment each lead hypothesis is about
META_T_IDXS = (2.0, 4.0, 6.0, 8.0, 10.0)  # s, of disengagement predictions

PLAN_WIDTH = 15
POSITION = slice(0, 3)  # m, device frame
VELOCITY = slice(3, 6)  # m/s
ACCELERATION = slice(6, 9)  # m/s²
ORIENTATION = slice(9, 12)  # rad, Euler angles from now
ORIENTATION_RATE = slice(12, 15)  # rad/s

PLAN_HYPOTHESES = 5
LEAD_HYPOTHESES = 2
LEADS = 3
LEAD_STEPS = 6
LEAD_WIDTH = 4  # x, y, v, a
LANE_LINES = 4
ROAD_EDGES = 2
DESIRE_LEN = 8
DESIRE_PREDICTIONS = 4
POLY_PATH_DEGREE = 4


@dataclass(frozen=True, slots=True)
class MetaLayout:
    """Where each probability series lies in the meta head; 5 values at META_T_IDXS.

    Pedal presses have 6 values (at 0, 2, … 10 s) in the newest layout and 5 before; None where
    the network does not predict the series.
    """

    gas_disengage: slice
    brake_disengage: slice
    steer_override: slice
    hard_brake_3: slice
    hard_brake_4: slice
    hard_brake_5: slice
    gas_press: slice
    brake_press: slice | None = None


def _series(first: int, stop: int, step: int, count: int) -> list[slice]:
    return [slice(first + i, stop, step) for i in range(count)]


# Keyed by the width of the head, which differs in every layout. Element 0 is "engaged" in all;
# blinkers fill the rest and are not published.
META_LAYOUTS = {
    48: MetaLayout(*_series(1, 36, 7, 7)),  # until 2024-06
    53: MetaLayout(*_series(1, 41, 8, 8)),  # 2024-06 to 2024-12
    55: MetaLayout(*_series(1, 31, 6, 6), *_series(31, 55, 4, 2)),  # since
}

# Hard braking is predicted when every one of the last probabilities exceeds its threshold,
# oldest first.
FCW_THRESHOLDS_5MS2 = np.array([0.05, 0.05, 0.15, 0.15, 0.15], np.float32)
FCW_THRESHOLDS_3MS2 = np.array([0.7, 0.7], np.float32)

# Confidence: probability of a disengagement within the horizon, averaged over the buffer.
CONFIDENCE_BUFFER_LEN = 5
CONFIDENCE_FRAMES = 2 * MODEL_RUN_HZ  # a new row every 2 s, so that rows and META_T_IDXS line up
GREEN_BELOW = 0.01165
YELLOW_BELOW = 0.06157


class Desire(IntEnum):
    """What the driver wants, as the network's desire input and desireState output count it."""

    NONE = 0
    TURN_LEFT = 1
    TURN_RIGHT = 2
    LANE_CHANGE_LEFT = 3
    LANE_CHANGE_RIGHT = 4
    KEEP_LEFT = 5
    KEEP_RIGHT = 6
