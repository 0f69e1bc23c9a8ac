"""Seeded inputs for the known runs that every artifact carries."""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from modeld.manifest import Tensor

Array = npt.NDArray[np.generic]

SEEDS = (42, 43)
# Two turns, so that recurrent state is not only zeros.
TURNS = 2


def random_inputs(
    tensors: Iterable[Tensor],
    seed: int,
    given: Mapping[str, Array] | None = None,
    shuffled: bool = False,
) -> dict[str, Array]:
    """Inputs by name: standard normal floats, uniform bytes, and 0 or 1 for other integers.

    Integers are mostly indices, for which 0 and 1 are the values least often out of range.
    `given` arrays are taken as they are, or with their values in another order: those are in the
    model's range, where random ones need not be.
    """
    rng = np.random.default_rng(seed)
    known = given or {}
    arrays = {}
    for tensor in tensors:
        drawn = _draw(rng, tensor)
        array = known.get(tensor.name, drawn)
        if shuffled and tensor.name in known:
            array = rng.permutation(array.reshape(-1)).reshape(array.shape)
        arrays[tensor.name] = array
    return arrays


def _draw(rng: np.random.Generator, tensor: Tensor) -> Array:
    dtype = np.dtype(tensor.dtype)
    if dtype.kind == "f":
        return rng.standard_normal(tensor.shape).astype(dtype)
    high = 256 if dtype == np.uint8 else 2
    return rng.integers(0, high, tensor.shape).astype(dtype)
