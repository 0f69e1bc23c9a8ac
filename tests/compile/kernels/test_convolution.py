"""Convolution kernels against onnxruntime, over shapes, layouts and tiles."""

from dataclasses import replace

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from kernel_bench import Bench, load, store
from onnx import TensorProto, helper, numpy_helper

from compile.kernels import conv, depthwise
from compile.kernels.conv import Convolution, Tile
from compile.kernels.layout import (
    BLOCKED,
    NCHW,
    NHWC,
    MapShape,
    pack_conv_weights,
    pad_channels,
)

# Sums of at most about 1,000 products of order 1/sqrt(count): float32 rounding stays below.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


def reference(
    x: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray,
    operator: str = "Conv",
    **attributes: object,
) -> np.ndarray:
    node = helper.make_node(operator, ["x", "w", "b"], ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[Convolution, tuple[int, int], int]:
    """A convolution, its bottom and right pads, and which of its tiles to take."""
    kernel = draw(st.sampled_from([(1, 1), (1, 1), (3, 3), (2, 5), (3, 1)]))
    stride = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    dilation = draw(st.sampled_from([(1, 1), (1, 1), (2, 3)]))
    pads = draw(st.tuples(*[st.integers(0, 3)] * 4))
    height, width = draw(st.integers(1, 9)), draw(st.integers(1, 23))
    sizes = [
        (size + before + after - (k - 1) * d - 1) // s + 1
        for size, before, after, k, d, s in zip(
            (height, width), pads[:2], pads[2:], kernel, dilation, stride, strict=True
        )
    ]
    assume(min(sizes) > 0)
    groups = draw(st.sampled_from([1, 1, 1, 2]))
    if groups == 2:
        channels, layouts = (32, 64), (BLOCKED, BLOCKED)
    else:
        channels = (draw(st.integers(1, 37)), draw(st.integers(1, 50)))
        layouts = draw(st.tuples(*[st.sampled_from([BLOCKED, NCHW, NHWC])] * 2))
    batch = draw(st.integers(1, 2))
    shape = Convolution(
        MapShape(batch, channels[0], height, width),
        channels[0],
        MapShape(batch, channels[1], *sizes),
        kernel,
        stride,
        dilation,
        pads[:2],
        groups,
        *layouts,
        ("add channel 0", "relu", "add tensor 0"),
    )
    return shape, pads[2:], draw(st.integers(0, 1000))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(convolutions())
def test_direct_convolution(bench: Bench, case: tuple[Convolution, tuple[int, int], int]) -> None:
    shape, pads_after, choice = case
    rng = np.random.default_rng(choice)
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
        pads=[*shape.pads, *pads_after],
        group=shape.groups,
    )
    residual = rng.standard_normal(expected.shape, np.float32)
    # Tiles at random, the small ones among them: they are quick to compile.
    tiles = sorted(conv.candidates(shape), key=lambda tile: tile.blocks * tile.pixels)[:12]
    kernel = conv.render(shape, tiles[choice % len(tiles)])
    operands = [
        store(x, shape.in_layout),
        pack_conv_weights(weights, shape.groups),
        pad_channels(bias),
        store(residual, shape.out_layout),
    ]
    (stored,) = bench.run(kernel, [out.stored(shape.out_layout)], operands)
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
    kernel = conv.render(shape, Tile(1, 4))
    inputs = [store(x, BLOCKED), packed, pad_channels(bias)]
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
    (found,) = bench.run(conv.render(shape, Tile(2, 4)), [(3, 10, 32)], [a, b])
    np.testing.assert_allclose(found, a @ b, rtol=1e-5, atol=1e-5)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@example(channels=17, size=(4, 8), kernel=(5, 5), stride=1, dilation=1, pads=(2, 2), choice=7)
@given(
    channels=st.integers(2, 40),
    size=st.tuples(st.integers(3, 9), st.integers(3, 21)),
    kernel=st.sampled_from([(3, 3), (5, 5), (1, 3)]),
    stride=st.integers(1, 2),
    dilation=st.integers(1, 2),
    pads=st.tuples(st.integers(2, 4), st.integers(3, 5)),
    choice=st.integers(0, 15),
)
def test_depthwise_convolution(
    bench: Bench,
    channels: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: int,
    dilation: int,
    pads: tuple[int, int],
    choice: int,
) -> None:
    rng = np.random.default_rng(choice)
    x = rng.standard_normal((2, channels, *size), np.float32)
    weights = rng.standard_normal((channels, 1, *kernel), np.float32) / np.float32(kernel[1])
    bias = rng.standard_normal(channels, np.float32)
    expected = reference(
        x,
        weights,
        bias,
        strides=[stride] * 2,
        dilations=[dilation] * 2,
        pads=[*pads, *pads],
        group=channels,
    )
    shape = replace(
        PLAIN,
        in_map=MapShape(2, channels, *size),
        in_channels=channels,
        out_map=MapShape(*expected.shape),
        kernel=kernel,
        stride=(stride, stride),
        dilation=(dilation, dilation),
        pads=pads,
        groups=channels,
        steps=("add channel 0", "silu"),
    )
    tiles = depthwise.candidates(shape)
    kernel_ = depthwise.render(shape, tiles[choice % len(tiles)])
    inputs = [store(x, BLOCKED), depthwise.pack_weights(weights), pad_channels(bias)]
    (stored,) = bench.run(kernel_, [shape.out_map.stored(BLOCKED)], inputs)
    found = load(stored, BLOCKED, channels)
    silu = expected / (1 + np.exp(-expected))
    np.testing.assert_allclose(found, silu, rtol=TOLERANCE, atol=TOLERANCE)
