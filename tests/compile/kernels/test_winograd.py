"""Convolution by Winograd's filtering against onnxruntime, over sizes, pads and tiles."""

import random

import numpy as np
import pytest
from kernel_bench import Bench, load, reference, store

from compile.kernels import conv, winograd
from compile.kernels.conv import Convolution, Tile
from compile.kernels.layout import BLOCKED, MapShape, pad_channels
from compile.kernels.winograd import Winograd

# Of values around 1. Ten times what the plain sum is allowed: inputs are multiplied by up to 5 x 5
# and products by up to 8 x 8 before most of it cancels.
TOLERANCE = 1e-4


def random_case(number: int) -> tuple[Winograd, tuple[int, int], Tile]:
    """The convolution of this number, its bottom and right pads, and the tile of its products."""
    rng = random.Random(number)
    pads = [rng.randint(0, 2) for _ in range(4)]
    size = (rng.randint(3, 21), rng.randint(3, 40))
    out = [size[n] + pads[n] + pads[n + 2] - 2 for n in range(2)]
    channels, batch = (rng.randint(1, 40), rng.randint(1, 50)), rng.randint(1, 2)
    spec = Winograd(
        Convolution(
            MapShape(batch, channels[0], *size),
            channels[0],
            MapShape(batch, channels[1], *out),
            (3, 3),
            (1, 1),
            (1, 1),
            (pads[0], pads[1]),
            1,
            BLOCKED,
            BLOCKED,
            ("add channel 0", "relu", "add tensor 0"),
        )
    )
    return spec, (pads[2], pads[3]), rng.choice(conv.candidates(spec.product)[:6])


CASES = [random_case(number) for number in range(16)]


@pytest.fixture(scope="module")
def bench() -> Bench:
    bench = Bench()
    bench.compile(winograd.render(spec, tile) for spec, _, tile in CASES)
    return bench


def convolved(
    bench: Bench, spec: Winograd, tile: Tile, x: np.ndarray, *operands: np.ndarray
) -> np.ndarray:
    """What the kernel makes of x, weights, bias and residual in ONNX's layouts."""
    weights, bias, residual = operands
    packed = [winograd.pack_weights(weights), pad_channels(bias), store(residual, BLOCKED)]
    out = spec.conv.out_map
    kernel = winograd.render(spec, tile)
    (stored,) = bench.run(kernel, [out.stored(BLOCKED)], [store(x, BLOCKED), *packed])
    return load(stored, BLOCKED, out.channels)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_winograd_convolution(number: int, bench: Bench) -> None:
    spec, pads_after, tile = CASES[number]
    shape, rng = spec.conv, np.random.default_rng(number)
    into, out = shape.in_map, shape.out_map
    x = rng.standard_normal((into.batch, into.channels, into.height, into.width), np.float32)
    weights = rng.standard_normal((out.channels, into.channels, 3, 3), np.float32)
    weights /= np.float32(np.sqrt(weights[0].size))
    bias = rng.standard_normal(out.channels, np.float32)
    expected = reference(x, weights, bias, pads=[*shape.pads, *pads_after])
    residual = rng.standard_normal(expected.shape, np.float32)
    found = convolved(bench, spec, tile, x, weights, bias, residual)
    np.testing.assert_allclose(found, np.maximum(expected, 0) + residual, rtol=0, atol=TOLERANCE)


def test_whole_numbers_are_exact(bench: Bench) -> None:
    """Places of whole inputs are whole; so are those of weights that are multiples of 24 x 24."""
    spec, pads_after, tile = CASES[0]
    shape, rng = spec.conv, np.random.default_rng(1)
    into, out = shape.in_map, shape.out_map
    x = rng.integers(-3, 4, (into.batch, into.channels, into.height, into.width))
    weights = 576 * rng.integers(-2, 3, (out.channels, into.channels, 3, 3))
    zeros = np.zeros((out.batch, out.channels, out.height, out.width), np.float32)
    x, weights = x.astype(np.float32), weights.astype(np.float32)
    bias = np.zeros(out.channels, np.float32)
    expected = reference(x, weights, bias, pads=[*shape.pads, *pads_after])
    found = convolved(bench, spec, tile, x, weights, bias, zeros)
    np.testing.assert_array_equal(found, np.maximum(expected, 0))
