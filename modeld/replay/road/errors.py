"""How far answers are from the truth, in the quantities that a driver would notice."""

import numpy as np
import numpy.typing as npt

from modeld.constants import T_IDXS, X_IDXS
from modeld.grid import neighbours

Array = npt.NDArray[np.floating]


def sideways_error(said: Array, true: Array, distance: float) -> Array:
    """Metres (...) between lines with y (..., 33) on `X_IDXS`, at `distance` metres ahead."""
    index, share = neighbours(X_IDXS, distance)
    error = said - true
    signed = error[..., index] * (1 - share) + error[..., index + 1] * share
    return np.asarray(np.abs(signed))


def path_error(said: Array, true: Array, when: float = 2.0) -> float:
    """Metres to the side of the true path (33, 2 or more), where the car will be at `when`.

    Rows are x and y at `T_IDXS`. Compared at the same place ahead: being early or late is no error
    to the side.
    """
    place = np.interp(when, T_IDXS, true[:, 0])
    rising = np.maximum.accumulate(said[:, 0]) + np.arange(len(T_IDXS)) * 1e-6
    aside = np.interp(place, rising, said[:, 1])
    return float(np.abs(aside - np.interp(when, T_IDXS, true[:, 1])))
