"""Maps at another size against numpy, by tables of places, layouts and blends."""

import numpy as np
import pytest
from kernel_bench import UNTOUCHED, Bench, load, store

from compile.kernels import resize
from compile.kernels.layout import BLOCKED, NCHW, MapShape, pad_channels
from compile.kernels.resize import Resize, pack_places
from compile.kernels.spec import decode, encode

IN, OUT = (5, 7), (11, 37)


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


def axis(size: int, out: int, blend: bool, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Places of `out` elements, in any order, and weights; the last place has no second."""
    first = rng.integers(0, size, out)
    weights = rng.uniform(0, 1, out) if blend else np.zeros(out)
    return first, np.where(first == size - 1, 0, weights).astype(np.float32)


def blended(x: np.ndarray, along: int, first: np.ndarray, weights: np.ndarray) -> np.ndarray:
    second = np.minimum(first + 1, x.shape[along] - 1)
    shape = [-1 if d == along else 1 for d in range(x.ndim)]
    w = weights.astype(np.float64).reshape(shape)
    return x.take(first, along) * (1 - w) + x.take(second, along) * w


@pytest.mark.parametrize("blend", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("layout", [BLOCKED, NCHW])
def test_resize(layout: str, blend: tuple[bool, bool], bench: Bench) -> None:
    rng = np.random.default_rng(sum(blend))
    x = rng.standard_normal((2, 21, *IN), np.float32)
    tensor = rng.standard_normal((2, 21, *OUT), np.float32)
    bias = rng.standard_normal(21, np.float32)
    rows, columns = (axis(*each, rng) for each in zip(IN, OUT, blend, strict=True))
    expected = blended(blended(x.astype(np.float64), 2, *rows), 3, *columns)
    expected = np.maximum(expected + bias[:, None, None] + tensor, 0)
    steps = ("add channel 0", "add tensor 0", "relu")
    spec = Resize(MapShape(*x.shape), MapShape(*tensor.shape), blend, layout, steps)
    assert decode(Resize, encode(spec)) == spec
    inputs = [store(x, BLOCKED), pack_places((rows, columns)), pad_channels(bias)]
    # One more item behind the last, which must stay as it was.
    shape = spec.out_map.stored(layout)
    guarded = (shape[0] + 1, *shape[1:])
    (found,) = bench.run(resize.render(spec), [guarded], [*inputs, store(tensor, layout)])
    np.testing.assert_allclose(load(found[:-1], layout, 21), expected, rtol=1e-6, atol=1e-6)
    assert (found[-1] == UNTOUCHED).all()


def test_nan_reaches_what_is_made_of_it_and_nothing_else(bench: Bench) -> None:
    x = np.zeros((1, 16, 2, 4), np.float32)
    x[:, :, 1, 1] = np.nan
    columns = (np.array([0, 0, 1, 2]), np.array([0.5, 0, 0.5, 0.5]))
    rows = (np.array([0, 0, 1]), np.array([0, 0.25, 0]))
    spec = Resize(MapShape(1, 16, 2, 4), MapShape(1, 16, 3, 4), (True, True), BLOCKED, ("relu",))
    inputs = [store(x, BLOCKED), pack_places((rows, columns))]
    (found,) = bench.run(resize.render(spec), [spec.out_map.stored(BLOCKED)], inputs)
    # As in onnxruntime, a neighbour counts even with the weight zero.
    wanted = np.array([[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0]], bool)
    np.testing.assert_array_equal(np.isnan(load(found, BLOCKED, 16)[0, 0]), wanted)
