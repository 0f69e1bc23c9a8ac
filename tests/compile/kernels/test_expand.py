"""A pointwise and a depthwise convolution in one kernel, against onnxruntime."""

import random
from dataclasses import replace

import numpy as np
import onnxruntime as ort
import pytest
from kernel_bench import Bench, load, store
from onnx import TensorProto, helper, numpy_helper

from compile.kernels import depthwise, expand
from compile.kernels.conv import Convolution
from compile.kernels.expand import Expansion
from compile.kernels.launch import Kernel
from compile.kernels.layout import BLOCKED, NCHW, MapShape, pack_conv_weights, pad_channels

# Sums of at most about 1,000 products of order 1/sqrt(count).
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def bench() -> Bench:
    bench = Bench()
    bench.compile(kernel for _, _, kernel in CASES)
    return bench


def random_case(number: int) -> tuple[Expansion, list[int], Kernel]:
    """The case of this number, its pads, and its kernel."""
    rng = random.Random(number)
    while True:
        kernel = rng.choice([(3, 3), (5, 5), (1, 3), (2, 4)])
        stride, dilation = rng.choice([1, 2, 3]), rng.choice([1, 1, 2])
        pads = [rng.randint(0, 3) for _ in range(4)]
        size = (rng.randint(2, 40), rng.randint(2, 30))
        out = tuple(
            (size[n] + pads[n] + pads[n + 2] - (kernel[n] - 1) * dilation - 1) // stride + 1
            for n in range(2)
        )
        if min(out) > 0:
            break
    batch, into, channels = rng.randint(1, 2), rng.randint(1, 40), rng.randint(2, 70)
    first = Convolution(
        MapShape(batch, into, *size),
        into,
        MapShape(batch, channels, *size),
        (1, 1),
        (1, 1),
        (1, 1),
        (0, 0),
        1,
        rng.choice([NCHW, BLOCKED]),
        BLOCKED,
        ("add channel 0", "silu"),
    )
    last = replace(
        first,
        in_map=first.out_map,
        in_channels=channels,
        out_map=MapShape(batch, channels, *out),
        kernel=kernel,
        stride=(stride, stride),
        dilation=(dilation, dilation),
        pads=(pads[0], pads[1]),
        groups=channels,
        in_layout=BLOCKED,
        steps=("add channel 1", "relu", "add tensor 0"),
    )
    spec = Expansion(first, last)
    return spec, pads, expand.render(spec, rng.randint(1, 9), rng.randint(1, 9))


CASES = [random_case(number) for number in range(10)]


def reference(spec: Expansion, pads: list[int], arrays: dict[str, np.ndarray]) -> np.ndarray:
    """(batch, channels, height, width) by onnxruntime."""
    last = spec.depthwise
    window = {
        "group": last.groups,
        "pads": pads,
        "strides": last.stride,
        "dilations": last.dilation,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["e"]),
        helper.make_node("Sigmoid", ["e"], ["g"]),
        helper.make_node("Mul", ["e", "g"], ["s"]),
        helper.make_node("Conv", ["s", "v", "c"], ["d"], **window),
        helper.make_node("Relu", ["d"], ["r"]),
        helper.make_node("Add", ["r", "t"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, arrays["x"].shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, n) for n, array in arrays.items() if n != "x"],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": arrays["x"]})[0]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_expansion(number: int, bench: Bench) -> None:
    spec, pads, kernel = CASES[number]
    first, last, rng = spec.expand, spec.depthwise, np.random.default_rng(number)
    into, channels = first.in_map, last.out_map.channels
    size = (into.batch, into.channels, into.height, into.width)
    taps = last.kernel[0] * last.kernel[1]
    arrays = {
        "x": rng.standard_normal(size, np.float32),
        "w": rng.standard_normal((channels, into.channels, 1, 1), np.float32),
        "b": rng.standard_normal(channels, np.float32),
        "v": rng.standard_normal((channels, 1, *last.kernel), np.float32),
        "c": rng.standard_normal(channels, np.float32),
        "t": rng.standard_normal(last.out_map.stored(NCHW), np.float32),
    }
    arrays["w"] /= np.float32(np.sqrt(into.channels))
    arrays["v"] /= np.float32(np.sqrt(taps))
    inputs = [
        store(arrays["x"], first.in_layout),
        pack_conv_weights(arrays["w"]),
        depthwise.pack_weights(arrays["v"]),
        pad_channels(arrays["b"]),
        pad_channels(arrays["c"]),
        store(arrays["t"], BLOCKED),
    ]
    (stored,) = bench.run(kernel, [last.out_map.stored(BLOCKED)], inputs)
    found = load(stored, BLOCKED, channels)
    np.testing.assert_allclose(found, reference(spec, pads, arrays), rtol=TOLERANCE, atol=TOLERANCE)


def test_the_cases_have_several_bands_and_overlapping_tiles() -> None:
    bands = {kernel.global_size[0] for _, _, kernel in CASES}
    assert max(bands) > 2
    assert any(
        spec.expand.in_map.width % int(kernel.source.split("EXPAND_PIXELS ")[1].split()[0])
        for spec, _, kernel in CASES
    )


def test_rows_that_do_not_fit_the_cache_are_left_alone() -> None:
    spec = CASES[0][0]
    wide = replace(spec.depthwise, in_map=MapShape(1, 16, 8, 600), kernel=(3, 3))
    assert expand.fits(spec)
    assert not expand.fits(replace(spec, depthwise=wide))
