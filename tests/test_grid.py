import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from modeld.constants import T_IDXS, X_IDXS
from modeld.grid import neighbours

VALUES = np.random.default_rng(0).normal(size=len(X_IDXS))


@given(st.sampled_from([T_IDXS, X_IDXS]), st.floats(-10, 250))
@example(X_IDXS, 0.0)
@example(X_IDXS, 192.0)
@example(T_IDXS, float(T_IDXS[7]))
def test_it_is_numpys_interpolation(grid: np.ndarray, place: float) -> None:
    index, share = neighbours(grid, place)
    assert 0 <= index < len(grid) - 1
    assert 0 <= share <= 1
    between = VALUES[index] * (1 - share) + VALUES[index + 1] * share
    assert between == pytest.approx(np.interp(place, grid, VALUES), rel=1e-12, abs=1e-12)
