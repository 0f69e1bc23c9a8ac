"""What the inputs of past driving networks mean, as tables.

Source: the networks' own metadata, and what openpilot's model daemon (`selfdrive/modeld`, releases
0.9.1 of 2023 to 2026) gave to them at 20 Hz.
"""

import numpy as np
import numpy.typing as npt

TODAY = "new_img"

# Names that manifests carry; they never change. "5hz" and "20hz" tell how far apart the steps of
# the network's context are.
GENERATIONS = {
    TODAY: "takes two warped frames and keeps its own history",
    "supercombo-20hz": "one file, 99 past features at 20 Hz, two frames in a row (2023 to 2025)",
    "supercombo-5hz": "one file, 24 or 32 past features at 5 Hz, frames 200 ms apart (2025, 2026)",
    "vision-policy-20hz": "two files, 100 features at 20 Hz, two frames in a row (2025)",
    "vision-policy-5hz": "two or three files, 25 or 33 features at 5 Hz (2025, 2026)",
}

# Steps of context, the present one included, and the frames from one step to the next.
FRAMES_PER_STEP = {25: 4, 33: 4, 100: 1}

# Narrow and wide camera: an older frame, then the present one.
IMAGES = (("img", "big_img"), ("input_imgs", "big_input_imgs"))
IMAGE_PAIR = (1, 12, 128, 256)
FRAME = (6, 128, 256)

FEATURES = "features_buffer"
DESIRES = ("desire", "desire_pulse")
DESIRE = 8

# Passed on as they are, all (1, 2).
HOST_INPUTS = ("traffic_convention", "action_t", "lateral_control_params")
HOST_SHAPE = (1, 2)

CURVATURE = "prev_desired_curv"  # (1, steps, 1)
CURVATURES = "prev_desired_curvs"  # (1, 20): the form that came first, at 20 Hz
CURVATURES_SHAPE = (1, 20)
PLANNER = "lat_planner_state"  # (1, 4): what the network planned for one frame later
PLANNER_SHAPE = (1, 4)

_STYLE = np.zeros((1, 12), np.float32)
# Normal, of the styles that were trained and never offered.
_STYLE[0, [0, 5]] = 1

# Inputs that never change here: there is no navigation.
CONSTANTS: dict[str, npt.NDArray[np.float32]] = {
    "nav_features": np.zeros((1, 256), np.float32),
    "nav_instructions": np.zeros((1, 150), np.float32),
    "driving_style": _STYLE,
}

KNOWN_INPUTS = (
    *(name for pair in IMAGES for name in pair),
    FEATURES,
    *DESIRES,
    *HOST_INPUTS,
    CURVATURE,
    CURVATURES,
    PLANNER,
    *CONSTANTS,
)

# Heads that come back as inputs.
HIDDEN_STATE = "hidden_state"
DESIRED_CURVATURE = "desired_curvature"
PLANNER_SOLUTION = "lat_planner_solution"
FED_BACK = {CURVATURE: DESIRED_CURVATURE, CURVATURES: DESIRED_CURVATURE, PLANNER: PLANNER_SOLUTION}

# `lat_planner_solution` has means of 33 points of 4 columns, then their deviations. The last two
# columns are fed back, interpolated to one frame (50 ms) ahead. Point i is at 10 (i / 32)^2 s, so
# that lies between points 2 and 3.
PLANNER_POINTS = 33
PLANNER_COLUMNS = 4
PLANNER_POINT = 2
PLANNER_WEIGHT = (0.05 - 10 * (2 / 32) ** 2) / (10 * (3 / 32) ** 2 - 10 * (2 / 32) ** 2)
