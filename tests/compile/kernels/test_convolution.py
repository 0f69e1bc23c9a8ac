"""Convolution kernels against onnxruntime, over shapes, layouts and tiles."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from kernel_bench import Bench, load, reference, store

from compile.kernels import conv, depthwise, group_conv
from compile.kernels.conv import Convolution, Tile
from compile.kernels.launch import Kernel
from compile.kernels.layout import (
    BLOCKED,
    NCHW,
    NHWC,
    MapShape,
    pack_conv_weights,
    pad_channels,
)
from compile.kernels.pixels import Pixels

# Sums of at most about 1,000 products of order 1/sqrt(count): float32 rounding stays below.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


@dataclass(frozen=True)
class Case:
    """A convolution, its bottom and right pads, and the tile that computes it."""

    shape: Convolution
    pads_after: tuple[int, int]
    tile: Tile

    @property
    def kernel(self) -> Kernel:
        return conv.render(self.shape, self.tile)


def output_sizes(
    size: Sequence[int], kernel: Sequence[int], stride: int, dilation: int, pads: Sequence[int]
) -> list[int]:
    return [
        (extent + pads[n] + pads[n + 2] - (kernel[n] - 1) * dilation - 1) // stride + 1
        for n, extent in enumerate(size)
    ]


def random_convolution(number: int) -> Case:
    """The case of this number: shapes, layouts, pads, groups and tile at random."""
    rng = random.Random(number)
    while True:
        kernel = rng.choice([(1, 1), (1, 1), (3, 3), (2, 5), (3, 1)])
        stride, dilation = rng.choice([1, 2]), rng.choice([1, 1, 2])
        pads = [rng.randint(0, 3) for _ in range(4)]
        size = (rng.randint(1, 9), rng.randint(1, 23))
        out_size = output_sizes(size, kernel, stride, dilation, pads)
        if min(out_size) > 0:
            break
    groups = rng.choice([1, 1, 1, 2])
    channels = (32, 64) if groups == 2 else (rng.randint(1, 37), rng.randint(1, 50))
    layouts = [BLOCKED if groups == 2 else rng.choice([BLOCKED, NCHW, NHWC]) for _ in range(2)]
    batch = rng.randint(1, 2)
    shape = Convolution(
        MapShape(batch, channels[0], *size),
        channels[0],
        MapShape(batch, channels[1], *out_size),
        kernel,
        (stride, stride),
        (dilation, dilation),
        (pads[0], pads[1]),
        groups,
        layouts[0],
        layouts[1],
        ("add channel 0", "relu", "add tensor 0"),
    )
    # Small tiles are quick to compile.
    tiles = sorted(conv.candidates(shape), key=lambda tile: tile.blocks * tile.pixels)[:12]
    return Case(shape, (pads[2], pads[3]), rng.choice(tiles))


CASES = [random_convolution(number) for number in range(16)]


@pytest.fixture(scope="module")
def random_bench() -> Bench:
    bench = Bench()
    shared = [group_conv.render(case.shape) for case in CASES if group_conv.fits(case.shape)]
    bench.compile([*[case.kernel for case in CASES], *shared])
    return bench


@pytest.mark.parametrize("number", range(len(CASES)))
def test_direct_convolution(number: int, random_bench: Bench) -> None:
    case = CASES[number]
    shape, rng = case.shape, np.random.default_rng(number)
    into, out = shape.in_map, shape.out_map
    per_group = shape.in_channels // shape.groups
    fan_in = per_group * shape.kernel[0] * shape.kernel[1]
    x = rng.standard_normal((into.batch, into.channels, into.height, into.width), np.float32)
    weights = rng.standard_normal((out.channels, per_group, *shape.kernel), np.float32)
    weights /= np.float32(np.sqrt(fan_in))
    bias = rng.standard_normal(out.channels, np.float32)
    expected = reference(
        x,
        weights,
        bias,
        strides=shape.stride,
        dilations=shape.dilation,
        pads=[*shape.pads, *case.pads_after],
        group=shape.groups,
    )
    residual = rng.standard_normal(expected.shape, np.float32)
    operands = [
        store(x, shape.in_layout),
        pack_conv_weights(weights, shape.groups),
        pad_channels(bias),
        store(residual, shape.out_layout),
    ]
    kernels = [case.kernel]
    if group_conv.fits(shape):
        kernels.append(group_conv.render(shape))
    for kernel in kernels:
        (stored,) = random_bench.run(kernel, [out.stored(shape.out_layout)], operands)
        found = load(stored, shape.out_layout, out.channels)
        np.testing.assert_allclose(
            found, np.maximum(expected, 0) + residual, rtol=TOLERANCE, atol=TOLERANCE
        )


PLAIN = Convolution(
    MapShape(1, 21, 5, 30),
    21,
    MapShape(1, 33, 5, 30),
    (3, 3),
    (1, 1),
    (1, 1),
    (1, 1),
    1,
    BLOCKED,
    BLOCKED,
)


@pytest.mark.parametrize("tile", [Tile(1, 30), Tile(3, 7, 2), Tile(3, 4, 9), Tile(1, 13, 3)])
def test_tiles_do_not_matter(tile: Tile, bench: Bench) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, 21, 5, 30), np.float32)
    weights = rng.standard_normal((33, 21, 3, 3), np.float32) / np.float32(14)
    inputs = [store(x, BLOCKED), pack_conv_weights(weights)]
    outs = [PLAIN.out_map.stored(BLOCKED)]
    (first,) = bench.run(conv.render(PLAIN, Tile(1, 1)), outs, inputs)
    (second,) = bench.run(conv.render(PLAIN, tile), outs, inputs)
    np.testing.assert_array_equal(load(first, BLOCKED, 33), load(second, BLOCKED, 33))


def test_a_channel_range_is_read_in_place(bench: Bench) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((1, 48, 4, 6), np.float32)
    weights = rng.standard_normal((16, 16, 1, 1), np.float32) / np.float32(4)
    shape = Convolution(
        MapShape(1, 48, 4, 6),
        16,
        MapShape(1, 16, 4, 6),
        (1, 1),
        (1, 1),
        (1, 1),
        (0, 0),
        1,
        BLOCKED,
        NCHW,
        in_offset=2 * 4 * 6 * 16,
    )
    kernel = conv.render(shape, Tile(1, 6))
    (found,) = bench.run(kernel, [(1, 16, 4, 6)], [store(x, BLOCKED), pack_conv_weights(weights)])
    expected = reference(np.ascontiguousarray(x[:, 32:]), weights, np.zeros(16, np.float32))
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("out_layout", [BLOCKED, NCHW])
def test_upscaling_is_a_transposed_convolution(out_layout: str, bench: Bench) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 20, 3, 5), np.float32)
    weights = rng.standard_normal((20, 7, 2, 3), np.float32) / np.float32(5)
    bias = rng.standard_normal(7, np.float32)
    expected = reference(x, weights, bias, "ConvTranspose", strides=[2, 3])
    shape = Convolution(
        MapShape(2, 20, 3, 5),
        20,
        MapShape(2, 7, 6, 15),
        (1, 1),
        (1, 1),
        (1, 1),
        (0, 0),
        1,
        BLOCKED,
        out_layout,
        ("add channel 0",),
        upscale=(2, 3),
    )
    places = weights.transpose(2, 3, 1, 0).reshape(6, 7, 20, 1, 1)
    packed = np.concatenate([pack_conv_weights(place) for place in places])
    inputs = [store(x, BLOCKED), packed, pad_channels(bias)]
    for kernel in (conv.render(shape, Tile(1, 4)), group_conv.render(shape)):
        (stored,) = bench.run(kernel, [shape.out_map.stored(out_layout)], inputs)
        found = load(stored, out_layout, 7)
        np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_product_of_two_matrices(bench: Bench) -> None:
    rng = np.random.default_rng(4)
    a = rng.standard_normal((3, 10, 21), np.float32)
    b = rng.standard_normal((3, 21, 32), np.float32)
    shape = Convolution(
        MapShape(3, 21, 1, 10),
        21,
        MapShape(3, 32, 1, 10),
        (1, 1),
        (1, 1),
        (1, 1),
        (0, 0),
        1,
        NHWC,
        NHWC,
        matrix=True,
    )
    for kernel in (conv.render(shape, Tile(2, 4)), group_conv.render(shape)):
        (found,) = bench.run(kernel, [(3, 10, 32)], [a, b])
        np.testing.assert_allclose(found, a @ b, rtol=1e-5, atol=1e-5)


def random_bytes(number: int) -> Case:
    """The case of this number: every third map of a queue, or a map alone; half of the widths are
    too small for a vector of bytes."""
    rng = random.Random(number)
    while True:
        kernel = rng.choice([(1, 1), (3, 3), (2, 5), (5, 1)])
        stride, dilation = rng.choice([1, 2]), rng.choice([1, 1, 2])
        pads = [rng.randint(0, 3) for _ in range(4)] if kernel != (1, 1) else [0] * 4
        size = (rng.randint(1, 9), rng.choice([rng.randint(1, 12), rng.randint(40, 70)]))
        out_size = output_sizes(size, kernel, stride, dilation, pads)
        if min(out_size) > 0:
            break
    part, parts = rng.choice([(3, 1), (6, 2), (18, 1), (7, 5)])
    step = part * rng.choice([1, 3]) if parts > 1 else part
    first = rng.choice([0, part])
    shape = Convolution(
        MapShape(1, first + step * parts, *size),
        part * parts,
        MapShape(1, rng.randint(1, 40), *out_size),
        kernel,
        (stride, stride),
        (dilation, dilation),
        (pads[0], pads[1]),
        1,
        NCHW,
        rng.choice([BLOCKED, NCHW]),
        ("add channel 0",),
        pixels=Pixels(rng.choice([0.0, -128.0, 3.25]), first, part, step),
    )
    return Case(shape, (pads[2], pads[3]), rng.choice(conv.candidates(shape)[:6]))


BYTES = [random_bytes(number) for number in range(10)]


@pytest.fixture(scope="module")
def bytes_bench() -> Bench:
    bench = Bench()
    bench.compile(case.kernel for case in BYTES)
    bench.compile(group_conv.render(case.shape) for case in BYTES)
    return bench


@pytest.mark.parametrize("number", range(len(BYTES)))
def test_convolution_of_bytes(number: int, bytes_bench: Bench) -> None:
    case = BYTES[number]
    shape, rng = case.shape, np.random.default_rng(number)
    pixels = shape.pixels
    assert pixels is not None
    size = (shape.in_map.channels, shape.in_map.height, shape.in_map.width)
    tensor = rng.integers(0, 256, size).astype(np.uint8)
    chosen = [
        pixels.first + c // pixels.part * pixels.step + c % pixels.part
        for c in range(shape.in_channels)
    ]
    # Padding is zero, not the shift.
    x = tensor[None, chosen].astype(np.float32) + np.float32(pixels.shift)
    weights = rng.standard_normal((shape.out_map.channels, len(chosen), *shape.kernel), np.float32)
    weights /= np.float32(128 * np.sqrt(weights[0].size))
    bias = rng.standard_normal(shape.out_map.channels, np.float32)
    pads = [*shape.pads, *case.pads_after]
    expected = reference(
        x, weights, bias, strides=shape.stride, dilations=shape.dilation, pads=pads
    )
    stored = np.resize(tensor, -(-tensor.size // 4) * 4).view(np.float32)
    inputs = [stored, pack_conv_weights(weights), pad_channels(bias)]
    for kernel in (case.kernel, group_conv.render(shape)):
        (out,) = bytes_bench.run(kernel, [shape.out_map.stored(shape.out_layout)], inputs)
        found = load(out, shape.out_layout, shape.out_map.channels)
        np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def random_depthwise(number: int) -> Case:
    """The case of this number; the first has a tile whose columns all cross a border."""
    rng = random.Random(number)
    while True:
        kernel, stride = rng.choice([(3, 3), (5, 5), (1, 3)]), rng.choice([1, 2])
        dilation, channels = rng.choice([1, 2]), rng.randint(2, 40)
        size, pads = (rng.randint(3, 9), rng.randint(3, 21)), (rng.randint(2, 4), rng.randint(3, 5))
        if number == 0:
            channels, size, kernel, stride, dilation, pads = 17, (4, 8), (5, 5), 1, 1, (2, 2)
        out_size = output_sizes(size, kernel, stride, dilation, [*pads, *pads])
        if min(out_size) > 0:
            break
    shape = replace(
        PLAIN,
        in_map=MapShape(2, channels, *size),
        in_channels=channels,
        out_map=MapShape(2, channels, *out_size),
        kernel=kernel,
        stride=(stride, stride),
        dilation=(dilation, dilation),
        pads=pads,
        groups=channels,
        steps=("add channel 0", "silu"),
    )
    tiles = depthwise.candidates(shape)
    return Case(shape, pads, tiles[7 % len(tiles)] if number == 0 else rng.choice(tiles))


DEPTHWISE = [random_depthwise(number) for number in range(8)]


@pytest.fixture(scope="module")
def depthwise_bench() -> Bench:
    bench = Bench()
    bench.compile(depthwise.render(case.shape, case.tile) for case in DEPTHWISE)
    return bench


@pytest.mark.parametrize("number", range(len(DEPTHWISE)))
def test_depthwise_convolution(number: int, depthwise_bench: Bench) -> None:
    case = DEPTHWISE[number]
    shape, rng = case.shape, np.random.default_rng(number)
    channels = shape.in_channels
    size = (2, channels, shape.in_map.height, shape.in_map.width)
    x = rng.standard_normal(size, np.float32)
    weights = rng.standard_normal((channels, 1, *shape.kernel), np.float32)
    weights /= np.float32(shape.kernel[1])
    bias = rng.standard_normal(channels, np.float32)
    expected = reference(
        x,
        weights,
        bias,
        strides=shape.stride,
        dilations=shape.dilation,
        pads=[*shape.pads, *shape.pads],
        group=channels,
    )
    inputs = [store(x, BLOCKED), depthwise.pack_weights(weights), pad_channels(bias)]
    kernel = depthwise.render(shape, case.tile)
    (stored,) = depthwise_bench.run(kernel, [shape.out_map.stored(BLOCKED)], inputs)
    found = load(stored, BLOCKED, channels)
    silu = expected / (1 + np.exp(-expected))
    np.testing.assert_allclose(found, silu, rtol=TOLERANCE, atol=TOLERANCE)
