"""Rounding at ties, zero points per channel, saturation."""

import numpy as np
import pytest
from single_node import assert_like_peer, feeds, node_model, ours, run

F = np.float32
RNG = np.random.default_rng(3)


def bytes_(*shape: int, kind: type = np.uint8) -> np.ndarray:
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    return RNG.integers(low, high, shape).astype(kind)


def scalar(value: float, kind: type = F) -> np.ndarray:
    return np.array(value, kind)


def test_dynamic_quantisation_rounds_a_tie_to_even() -> None:
    # The onnx suite's example: -2.5 / scale + zero point is a tie for a rounded reciprocal.
    x = np.array([0, 2, -3, -2.5, 1.34, 0.5], F)
    model = node_model("DynamicQuantizeLinear", [x], 3, opset=11)
    y, scale, zero = ours(model, feeds(model, [x]))
    np.testing.assert_array_equal(y, [153, 255, 0, 26, 221, 179])
    assert (zero, scale) == (153, F(5 / 255))


def test_a_range_of_nothing_is_quantised_without_nan() -> None:
    x = np.zeros(4, F)
    model = node_model("DynamicQuantizeLinear", [x], 3, opset=11)
    y, scale, _ = ours(model, feeds(model, [x]))
    assert not y.any()
    assert scale == 1


@pytest.mark.parametrize("known", [(), (1, 2)])
def test_quotients_at_ties_round_to_even(known: tuple[int, ...]) -> None:
    x = (np.arange(-40, 40, dtype=F) + F(0.5)) * F(0.3)
    assert_like_peer(
        "QuantizeLinear", x, scalar(0.3), scalar(3, np.int8), opset=13, known=known, atol=0
    )


def test_quantisation_saturates() -> None:
    found = run("QuantizeLinear", np.array([1e9, -1e9, 5], F), scalar(1), scalar(7, np.uint8))
    np.testing.assert_array_equal(found, [255, 0, 12])


def test_per_axis_and_blocked_scales() -> None:
    x, scales, zeros = RNG.standard_normal((2, 3, 4)).astype(F), np.array([0.1, 1, 2], F), bytes_(3)
    assert_like_peer("QuantizeLinear", x, scales, zeros, opset=13, axis=1, atol=0)
    blocks = np.array([[1, 2], [4, 8]], F)
    found = run(
        "DequantizeLinear", np.ones((2, 3), np.int8), blocks, opset=21, axis=1, block_size=2
    )
    np.testing.assert_array_equal(found, [[1, 1, 2], [4, 4, 8]])


def test_convolution_of_integers_with_a_zero_point_per_channel() -> None:
    x, w = bytes_(1, 2, 5, 5), bytes_(3, 2, 3, 3)
    zeros = np.array([3, 200, 77], np.uint8)
    found = run("ConvInteger", x, w, scalar(9, np.uint8), zeros, opset=10)
    centred = w.astype(np.int64) - zeros.reshape(3, 1, 1, 1)
    windows = np.lib.stride_tricks.sliding_window_view(x[0].astype(np.int64) - 9, (3, 3), (1, 2))
    np.testing.assert_array_equal(found[0], np.einsum("chwij,mcij->mhw", windows, centred))


@pytest.mark.parametrize("known", [(), (1, 2, 4, 5, 6, 7)])
def test_padding_of_a_quantised_convolution_is_real_zero(known: tuple[int, ...]) -> None:
    x, w = bytes_(1, 2, 6, 6), bytes_(3, 2, 3, 3, kind=np.int8)
    scales = np.array([0.02] * 3 if known else [0.02, 0.03, 0.01], F)
    rest = (scalar(0.1), scalar(100, np.uint8), RNG.integers(-500, 500, 3).astype(np.int32))
    inputs = (x, scalar(0.02), scalar(120, np.uint8), w, scales, np.zeros(3, np.int8), *rest)
    assert_like_peer("QLinearConv", *inputs, opset=10, pads=[1, 1, 1, 1], atol=0, known=known)


def test_matrix_products_of_integers() -> None:
    a, b = bytes_(3, 4), bytes_(4, 5)
    assert_like_peer("MatMulInteger", a, b, scalar(12, np.uint8), bytes_(5), opset=10, atol=0)
    inputs = (a, scalar(0.02), scalar(120, np.uint8), b, scalar(0.03), scalar(99, np.uint8))
    assert_like_peer("QLinearMatMul", *inputs, scalar(0.1), scalar(100, np.uint8), atol=0)


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_contributed_binary_operators(op: str) -> None:
    a, b = bytes_(3, 4), bytes_(3, 4)
    inputs = (a, scalar(0.02), scalar(120, np.uint8), b, scalar(0.03), scalar(99, np.uint8))
    assert_like_peer(
        op,
        *inputs,
        scalar(0.1),
        scalar(100, np.uint8),
        domain="com.microsoft",
        known=(1, 2, 4, 5, 6, 7),
        atol=1,
    )
