"""Convolution and pooling: where windows lie, what padding counts, which index is meant."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_node import assert_like_peer, feeds, node_model, ours, peer, run, sparsely

from compile.ops.window import windows

F = np.float32
RNG = np.random.default_rng(8)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(F)


POOLS = [
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1], "ceil_mode": 1},
    {"kernel_shape": [2, 3], "dilations": [2, 1], "pads": [0, 1, 1, 0]},
    {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "VALID"},
]


@pytest.mark.parametrize(("options", "include"), sparsely(product(POOLS, [0, 1]), 5))
def test_averages_count_what_the_page_says(options: dict[str, object], include: int) -> None:
    x = draw(2, 3, 9, 8)
    assert_like_peer("AveragePool", x, opset=19, count_include_pad=include, **options)


@pytest.mark.parametrize(("options", "order"), sparsely(product(POOLS, [0, 1]), 9))
def test_maxima_and_their_places_in_the_whole_input(options: dict[str, object], order: int) -> None:
    x = draw(2, 3, 9, 8)
    assert_like_peer("MaxPool", x, outputs=2, opset=12, storage_order=order, atol=0, **options)


@pytest.mark.parametrize("options", sparsely(POOLS[:4], 4))
def test_norms(options: dict[str, object]) -> None:
    assert_like_peer("LpPool", draw(2, 3, 9, 8), opset=18, p=3, **options)


def test_unpooling_undoes_pooling_of_every_image_of_a_batch() -> None:
    x = np.abs(draw(2, 3, 6, 6)) + 1
    model = node_model("MaxPool", [x], 2, opset=12, kernel_shape=[2, 2], strides=[2, 2])
    top, places = ours(model, {"i0": x})
    back = run("MaxUnpool", top, places, opset=11, kernel_shape=[2, 2], strides=[2, 2])
    assert back.shape == x.shape
    np.testing.assert_array_equal(back[back > 0], x[back > 0])
    np.testing.assert_array_equal(np.sort(back[back > 0]), np.sort(top.reshape(-1)))


def test_a_larger_output_shape_is_filled_with_zeros() -> None:
    top, places = np.array([[[[5, 6], [7, 8]]]], F), np.array([[[[5, 7], [13, 15]]]])
    found = run(
        "MaxUnpool",
        top,
        places,
        np.array([1, 1, 5, 5]),
        opset=11,
        known=(2,),
        kernel_shape=[2, 2],
        strides=[2, 2],
    )
    expected = np.zeros((1, 1, 5, 5), F)
    expected[0, 0, [1, 1, 3, 3], [1, 3, 1, 3]] = [5, 6, 7, 8]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "options",
    sparsely(
        [
            {"group": 2, "auto_pad": "SAME_UPPER"},
            {"group": 4, "strides": [3, 2], "dilations": [2, 1]},
            {"strides": [2, 1], "pads": [1, 0, 2, 1]},
        ],
        3,
    ),
)
def test_convolutions(options: dict[str, object]) -> None:
    group = options.get("group", 1)
    w = draw(8, 4 // group, 3, 3)  # type: ignore[operator]
    assert_like_peer("Conv", draw(2, 4, 11, 9), w, draw(8), atol=1e-5, **options)


def test_dilated_same_padding_takes_the_reach_of_the_kernel() -> None:
    x, w = draw(1, 1, 9, 9), draw(1, 1, 3, 3)
    found = run("Conv", x, w, auto_pad="SAME_UPPER", dilations=[2, 2])
    np.testing.assert_allclose(found, run("Conv", x, w, pads=[2] * 4, dilations=[2, 2]), atol=1e-6)


@pytest.mark.parametrize(
    "options",
    sparsely(
        [
            {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
            {"strides": [2, 3], "output_shape": [12, 14]},
            {"strides": [2, 2], "output_shape": [9, 11], "auto_pad": "SAME_UPPER"},
            {"strides": [4, 4], "output_shape": [20, 20]},
            {"strides": [3, 2], "auto_pad": "SAME_UPPER"},
            {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
            {"strides": [1, 2], "dilations": [2, 1], "pads": [0, 1, 2, 0], "group": 2},
        ],
        3,
    ),
)
def test_transposed_convolutions(options: dict[str, object]) -> None:
    x, w = draw(1, 4, 5, 5), draw(4, 3, 3, 3)
    bias = draw(3 * options.get("group", 1))  # type: ignore[operator]
    assert_like_peer("ConvTranspose", x, w, bias, atol=1e-5, **options)


def test_causal_convolution_continues_from_its_state() -> None:
    x, w, bias = draw(1, 2, 7), draw(2, 1, 3), draw(2)
    whole = run("CausalConvWithState", x, w, bias, opset=27, activation="silu")
    first, second = x[..., :4], x[..., 4:]
    inputs = (first, w, bias)
    model = node_model("CausalConvWithState", inputs, 2, opset=27, activation="silu")
    y, state = ours(model, feeds(model, inputs))
    np.testing.assert_array_equal(state, x[..., 2:4])
    rest = run("CausalConvWithState", second, w, bias, state, opset=27, activation="silu")
    np.testing.assert_allclose(np.concatenate([y, rest], 2), whole, atol=1e-6)


@given(
    st.integers(1, 20), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 1)
)
def test_the_last_window_fits_and_starts_inside(
    size: int, kernel: int, stride: int, dilation: int, ceil: int
) -> None:
    reach = (kernel - 1) * dilation + 1
    if reach > size:
        with pytest.raises(ValueError, match=f"window of {reach} does not fit into {size}"):
            windows((size,), (kernel,), (stride,), (dilation,), None, "NOTSET", ceil)
        return
    found = windows((size,), (kernel,), (stride,), (dilation,), None, "NOTSET", ceil)
    last = (found.count[0] - 1) * stride
    assert last < size
    assert last + reach <= size + found.rounded_up[0]


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 99))
def test_columns_are_summed_where_blocks_overlap(seed: int) -> None:
    columns = np.random.default_rng(seed).standard_normal((1, 8, 12)).astype(F)
    inputs = (columns, np.array([4, 5]), np.array([2, 2]))
    model = node_model("Col2Im", inputs, opset=18, known=(1, 2))
    given_ = feeds(model, inputs)
    np.testing.assert_allclose(ours(model, given_)[0], peer(model, given_)[0], atol=1e-5)
