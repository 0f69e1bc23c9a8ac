"""Convolutions in planes against onnxruntime, over windows, pads, strides and widths."""

import random

import numpy as np
import pytest
from kernel_bench import Bench, reference

from compile.kernels import planar
from compile.kernels.conv import Convolution
from compile.kernels.layout import NCHW, MapShape, pack_conv_weights, pad_channels
from compile.kernels.planar import Planar

# Sums of at most 150 products of order 1/sqrt(count).
TOLERANCE = 1e-5


def random_case(number: int) -> tuple[Planar, tuple[int, int], int]:
    """The convolution of this number, its bottom and right pads, and vectors a tile."""
    rng = random.Random(number)
    while True:
        kernel = rng.choice([(1, 1), (3, 3), (2, 5), (5, 1), (1, 7)])
        stride, dilation = (rng.choice([1, 2, 3]), rng.choice([1, 2])), rng.choice([1, 1, 2, 9])
        pads = [rng.randint(0, 20) for _ in range(4)]
        size = (rng.randint(1, 9), rng.randint(1, 90))
        out = [
            (size[n] + pads[n] + pads[n + 2] - (kernel[n] - 1) * dilation - 1) // stride[n] + 1
            for n in range(2)
        ]
        if out[0] > 0 and out[1] >= 16:
            break
    channels, batch = (rng.randint(1, 16), rng.randint(1, 8)), rng.randint(1, 2)
    conv = Convolution(
        MapShape(batch, channels[0], *size),
        channels[0],
        MapShape(batch, channels[1], *out),
        kernel,
        stride,
        (dilation, dilation),
        (pads[0], pads[1]),
        1,
        NCHW,
        NCHW,
        ("add channel 0", "relu"),
    )
    sums = rng.choice([6, 28])
    return Planar(conv), (pads[2], pads[3]), planar.tile(conv, sums).pixels // 16


CASES = [random_case(number) for number in range(24)]


@pytest.fixture(scope="module")
def bench() -> Bench:
    bench = Bench()
    bench.compile(planar.render(spec, vectors) for spec, _, vectors in CASES)
    return bench


@pytest.mark.parametrize("number", range(len(CASES)))
def test_planar_convolution(number: int, bench: Bench) -> None:
    spec, pads_after, vectors = CASES[number]
    conv, rng = spec.conv, np.random.default_rng(number)
    into, out = conv.in_map, conv.out_map
    x = rng.standard_normal((into.batch, into.channels, into.height, into.width), np.float32)
    weights = rng.standard_normal((out.channels, into.channels, *conv.kernel), np.float32)
    weights /= np.float32(np.sqrt(weights[0].size))
    bias = rng.standard_normal(out.channels, np.float32)
    expected = reference(
        x,
        weights,
        bias,
        strides=conv.stride,
        dilations=conv.dilation,
        pads=[*conv.pads, *pads_after],
    )
    kernel, operands = (
        planar.render(spec, vectors),
        [pack_conv_weights(weights), pad_channels(bias)],
    )
    (found,) = bench.run(kernel, [out.stored(NCHW)], [x, *operands])
    np.testing.assert_allclose(found, np.maximum(expected, 0), rtol=TOLERANCE, atol=TOLERANCE)


def test_what_lies_beside_a_row_is_not_multiplied(bench: Bench) -> None:
    spec, _, vectors = next(c for c in CASES if c[0].conv.pads[1] and c[0].conv.in_map.height > 2)
    conv = spec.conv
    shape = (conv.in_map.batch, conv.in_map.channels, conv.in_map.height, conv.in_map.width)
    x = np.zeros(shape, np.float32)
    x[:, :, 1] = np.nan
    weights = np.ones((conv.out_map.channels, conv.in_channels, *conv.kernel), np.float32)
    operands = [pack_conv_weights(weights), pad_channels(np.zeros(conv.out_map.channels))]
    kernel = planar.render(spec, vectors)
    (found,) = bench.run(kernel, [conv.out_map.stored(NCHW)], [x, *operands])
    reads = [
        [row * conv.stride[0] - conv.pads[0] + k * conv.dilation[0] for k in range(conv.kernel[0])]
        for row in range(conv.out_map.height)
    ]
    clean = [row for row, read in enumerate(reads) if 1 not in read]
    assert clean
    np.testing.assert_array_equal(found[:, :, clean], 0)
