"""Places between the points of a grid."""

import numpy as np
import numpy.typing as npt


def neighbours(grid: npt.NDArray[np.float64], place: float) -> tuple[int, float]:
    """(index, share): `place` lies that share of the way from grid[index] to grid[index + 1].

    A value given at the points of the rising `grid` is (1 - share) of the one and share of the
    other there. Places before the first point and beyond the last count as these, as they do for
    numpy.interp; this is for values that are tensors, or have more axes.
    """
    index = int(np.clip(np.searchsorted(grid, place) - 1, 0, len(grid) - 2))
    share = (place - grid[index]) / (grid[index + 1] - grid[index])
    return index, float(np.clip(share, 0, 1))
