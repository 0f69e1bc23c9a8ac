"""Arithmetic, comparison and activation, where tinygrad's own operator would be wrong, and more."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_node import assert_like_peer, run, sparsely

F = np.float32


def floats(*values: float) -> np.ndarray:
    return np.array(values, F)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_modulo_by_infinity_keeps_the_dividend(kind: type) -> None:
    # The Mod page: x where the signs agree, y where they differ.
    x = np.array([5, -5, 5, -5, 0], kind)
    y = np.array([np.inf, -np.inf, -np.inf, np.inf, np.inf], kind)
    np.testing.assert_array_equal(
        run("Mod", x, y, opset=28), np.array([5, -5, -np.inf, np.inf, 0], kind)
    )


def test_modulo_by_infinity_with_fmod_keeps_the_dividend() -> None:
    x, y = floats(5, -5, 7), floats(np.inf, np.inf, -np.inf)
    np.testing.assert_array_equal(run("Mod", x, y, fmod=1), x)


@pytest.mark.parametrize(("fmod", "expected"), [(0, [-2, 1, 2, -1]), (1, [1, -2, 2, -1])])
def test_modulo_of_integers_takes_the_sign_the_page_says(fmod: int, expected: list[int]) -> None:
    x, y = np.array([7, -8, 8, -7], np.int32), np.array([-3, 3, 3, -3], np.int32)
    np.testing.assert_array_equal(run("Mod", x, y, fmod=fmod), expected)


def test_comparisons_with_nan_are_false() -> None:
    x, y = floats(np.nan, 1, 2, 3), floats(1, np.nan, 2, 2)
    np.testing.assert_array_equal(run("LessOrEqual", x, y), [False, False, True, False])
    np.testing.assert_array_equal(run("GreaterOrEqual", x, y), [False, False, True, True])


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_nan_survives_maximum_and_minimum_on_either_side(op: str) -> None:
    found = run(op, floats(np.nan, 1, 2), floats(1, np.nan, 2))
    np.testing.assert_array_equal(found, floats(np.nan, np.nan, 2))


def test_asinh_of_large_negative_numbers() -> None:
    x = floats(-1e4, -1000, -1, 0, 1, 1e4)
    np.testing.assert_allclose(run("Asinh", x), np.arcsinh(x), rtol=1e-6)


def test_shrink_of_infinity_is_infinity() -> None:
    found = run("Shrink", floats(np.inf, -np.inf, 0.1, 3), lambd=1.5, bias=1.5)
    np.testing.assert_array_equal(found, floats(np.inf, -np.inf, 0, 1.5))


@settings(max_examples=6, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 14)), min_size=1, max_size=6),
)
def test_integer_powers_are_exact(pairs: list[tuple[int, int]]) -> None:
    base, exponent = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    found = run("Pow", np.resize(base, 6), np.resize(exponent, 6), opset=15)
    np.testing.assert_array_equal(found, np.resize(base**exponent, 6))


def test_an_integer_to_a_real_power_is_truncated() -> None:
    base, exponent = np.array([2, 9, 10], np.int32), floats(0.5, 3.0, -1.0)
    np.testing.assert_array_equal(run("Pow", base, exponent, opset=15), [1, 729, 0])


def test_legacy_broadcasting_aligns_at_the_axis() -> None:
    x, y = np.zeros((2, 3, 4), F), floats(1, 2, 3)
    found = run("Add", x, y, opset=6, broadcast=1, axis=1)
    np.testing.assert_array_equal(found, np.broadcast_to(y.reshape(1, 3, 1), (2, 3, 4)))


def test_a_one_dimensional_slope_belonged_to_the_channels() -> None:
    x = -np.ones((1, 2, 3), F)
    found = run("PRelu", x, floats(0.5, 2), opset=6)
    np.testing.assert_array_equal(found, [[[-0.5] * 3, [-2.0] * 3]])


@pytest.mark.parametrize(
    ("op", "axis"), sparsely(product(["Softmax", "LogSoftmax", "Hardmax"], [0, 1, 2, -2]), 5)
)
def test_softmax_before_opset_13_spans_all_later_axes(op: str, axis: int) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(F)
    assert_like_peer(op, x, opset=11, axis=axis)


def test_clip_with_a_minimum_above_its_maximum_gives_the_maximum() -> None:
    found = run("Clip", floats(-5, 0, 5), np.array(1, F), np.array(-1, F), opset=12)
    np.testing.assert_array_equal(found, [-1, -1, -1])


def test_swiglu_is_swish_of_the_gate_times_the_value() -> None:
    a, b = floats(-1, 0, 2), floats(3, 4, 5)
    expected = a / (1 + np.exp(-0.5 * a)) * b
    np.testing.assert_allclose(run("SwiGLU", a, b, opset=28, alpha=0.5), expected, rtol=1e-6)
