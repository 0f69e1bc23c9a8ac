"""A pointwise and a depthwise convolution in one kernel, in either order, against onnxruntime."""

import random
from dataclasses import replace

import numpy as np
import onnxruntime as ort
import pytest
from kernel_bench import Bench, load, store
from onnx import TensorProto, helper, numpy_helper

from compile.kernels import depthwise, expand, separable
from compile.kernels.conv import Convolution
from compile.kernels.expand import Expansion
from compile.kernels.launch import Kernel
from compile.kernels.layout import BLOCKED, NCHW, MapShape, pack_conv_weights, pad_channels
from compile.kernels.separable import Separable

# Sums of at most about 1,000 products of order 1/sqrt(count).
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def bench() -> Bench:
    bench = Bench()
    bench.compile(kernel for _, _, kernel in (*EXPANSIONS, *SEPARABLES))
    return bench


def random_window(rng: random.Random, channels: int) -> tuple[Convolution, list[int]]:
    """A depthwise convolution and its four pads."""
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
    batch = rng.randint(1, 2)
    conv = Convolution(
        MapShape(batch, channels, *size),
        channels,
        MapShape(batch, channels, *out),
        kernel,
        (stride, stride),
        (dilation, dilation),
        (pads[0], pads[1]),
        channels,
        BLOCKED,
        BLOCKED,
    )
    return conv, pads


def pointwise(into: MapShape, channels: int, layout: str) -> Convolution:
    out = replace(into, channels=channels)
    one = (1, 1)
    return Convolution(into, into.channels, out, one, one, one, (0, 0), 1, layout, BLOCKED)


FIRST_STEPS = ("add channel 0", "silu")
LAST_STEPS = ("add channel 1", "relu", "add tensor 0")


def random_expansion(number: int) -> tuple[Expansion, list[int], Kernel]:
    """The case of this number, its pads, and its kernel."""
    rng = random.Random(number)
    window, pads = random_window(rng, rng.randint(2, 70))
    into = replace(window.in_map, channels=rng.randint(1, 40))
    first = pointwise(into, window.in_channels, rng.choice([NCHW, BLOCKED]))
    spec = Expansion(replace(first, steps=FIRST_STEPS), replace(window, steps=LAST_STEPS))
    return spec, pads, expand.render(spec, rng.randint(1, 9), rng.randint(1, 9))


def random_separable(number: int) -> tuple[Separable, list[int], Kernel]:
    """The case of this number, its pads, and its kernel."""
    rng = random.Random(number)
    window, pads = random_window(rng, rng.randint(2, 70))
    last = pointwise(window.out_map, rng.choice([3, 16, 32, 40]), BLOCKED)
    spec = Separable(replace(window, steps=FIRST_STEPS), replace(last, steps=LAST_STEPS))
    blocks = 2 if last.out_map.channels == 32 else 1
    return spec, pads, separable.render(spec, rng.randint(1, 9), blocks, rng.randint(1, 9))


EXPANSIONS = [random_expansion(number) for number in range(10)]
SEPARABLES = [random_separable(number) for number in range(12)]


def run_ort(
    first: Convolution, last: Convolution, pads: list[int], arrays: dict[str, np.ndarray]
) -> np.ndarray:
    """(batch, channels, height, width)."""
    windows = [
        {
            "group": conv.groups,
            "pads": pads if conv.groups > 1 else [0, 0, 0, 0],
            "strides": conv.stride,
            "dilations": conv.dilation,
        }
        for conv in (first, last)
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["e"], **windows[0]),
        helper.make_node("Sigmoid", ["e"], ["g"]),
        helper.make_node("Mul", ["e", "g"], ["s"]),
        helper.make_node("Conv", ["s", "v", "c"], ["d"], **windows[1]),
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


def check(
    bench: Bench,
    kernel: Kernel,
    first: Convolution,
    last: Convolution,
    pads: list[int],
    rng: np.random.Generator,
) -> None:
    """Compare the kernel on random arrays with onnxruntime."""

    def weights(conv: Convolution) -> np.ndarray:
        taps = (conv.per_group, *conv.kernel)
        return rng.standard_normal((conv.out_map.channels, *taps), np.float32) / np.float32(
            np.sqrt(np.prod(taps))
        )

    def packed(conv: Convolution, values: np.ndarray) -> np.ndarray:
        return depthwise.pack_weights(values) if conv.groups > 1 else pack_conv_weights(values)

    arrays = {
        "x": rng.standard_normal(first.in_map.stored(NCHW), np.float32),
        "w": weights(first),
        "b": rng.standard_normal(first.out_map.channels, np.float32),
        "v": weights(last),
        "c": rng.standard_normal(last.out_map.channels, np.float32),
        "t": rng.standard_normal(last.out_map.stored(NCHW), np.float32),
    }
    inputs = [
        store(arrays["x"], first.in_layout),
        packed(first, arrays["w"]),
        packed(last, arrays["v"]),
        pad_channels(arrays["b"]),
        pad_channels(arrays["c"]),
        store(arrays["t"], BLOCKED),
    ]
    (stored,) = bench.run(kernel, [last.out_map.stored(BLOCKED)], inputs)
    found = load(stored, BLOCKED, last.out_map.channels)
    wanted = run_ort(first, last, pads, arrays)
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("number", range(len(EXPANSIONS)))
def test_expansion(number: int, bench: Bench) -> None:
    spec, pads, kernel = EXPANSIONS[number]
    rng = np.random.default_rng(number)
    check(bench, kernel, spec.expand, spec.depthwise, pads, rng)


@pytest.mark.parametrize("number", range(len(SEPARABLES)))
def test_separable(number: int, bench: Bench) -> None:
    spec, pads, kernel = SEPARABLES[number]
    rng = np.random.default_rng(number)
    check(bench, kernel, spec.depthwise, spec.pointwise, pads, rng)


def test_the_cases_have_several_bands_and_overlapping_tiles() -> None:
    bands = {kernel.global_size[1] for _, _, kernel in EXPANSIONS}
    assert max(bands) > 2
    assert any(
        spec.expand.in_map.width % int(kernel.source.split("EXPAND_PIXELS ")[1].split()[0])
        for spec, _, kernel in EXPANSIONS
    )


def test_expansions_of_maps_that_leave_the_cache_and_rows_that_fit_it() -> None:
    window = replace(EXPANSIONS[0][0].depthwise, kernel=(3, 3), dilation=(1, 1))

    def expansion(channels: int, height: int, width: int) -> Expansion:
        between = MapShape(1, channels, height, width)
        return Expansion(EXPANSIONS[0][0].expand, replace(window, in_map=between))

    assert expansion(64, 80, 64).fits
    assert not expansion(64, 40, 64).fits
    assert not expansion(64, 80, 600).fits


def test_separables_with_rows_for_all_cores_that_fit_the_cache() -> None:
    def separable_of(channels: int, height: int, width: int) -> Separable:
        between = MapShape(1, channels, height, width)
        first, last = SEPARABLES[0][0].depthwise, SEPARABLES[0][0].pointwise
        return Separable(replace(first, out_map=between), replace(last, in_map=between))

    assert separable_of(384, 8, 16).fits
    assert not separable_of(384, 7, 16).fits
    assert not separable_of(384, 8, 32).fits


def test_the_separable_cases_have_several_rows_an_item_and_overlapping_tiles() -> None:
    assert any("#define SPAN 2" in kernel.source for _, _, kernel in SEPARABLES)
    assert any(
        spec.between.width % int(kernel.source.split("POINTWISE_PIXELS ")[1].split()[0])
        for spec, _, kernel in SEPARABLES
    )
