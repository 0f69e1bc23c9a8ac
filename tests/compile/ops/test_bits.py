"""Shifts beyond the width, and reinterpretation."""

from itertools import product

import numpy as np
import pytest
from single_node import refusal, run, sparsely

TYPES = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


@pytest.mark.parametrize(("kind", "direction"), sparsely(product(TYPES, ["LEFT", "RIGHT"]), 5))
def test_shift_by_less_than_the_width(kind: type, direction: str) -> None:
    x, y = np.array([1, 16, 3, 100], kind), np.array([1, 2, 5, 0], kind)
    shift = np.left_shift if direction == "LEFT" else np.right_shift
    found = run("BitShift", x, y, opset=28, direction=direction)
    np.testing.assert_array_equal(found, shift(x, y))


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64])
def test_shift_outside_of_the_width_leaves_what_sign_extension_leaves(kind: type) -> None:
    width = 8 * np.dtype(kind).itemsize
    x = np.array([-5, 5, -5, 5, -5, 5], kind)
    y = np.array([width, width, -1, -1, 100, 100], kind)
    right = run("BitShift", x, y, opset=28, direction="RIGHT")
    np.testing.assert_array_equal(right, [-1, 0, -1, 0, -1, 0])
    assert not run("BitShift", x, y, opset=28, direction="LEFT").any()


def test_right_shift_of_a_negative_number_keeps_its_sign() -> None:
    x = np.array([-128, -1, -7], np.int8)
    found = run("BitShift", x, np.array([1, 3, 1], np.int8), opset=28, direction="RIGHT")
    np.testing.assert_array_equal(found, [-64, -1, -4])


def test_unsigned_shift_by_the_width_gives_zero() -> None:
    x, y = np.array([255, 255], np.uint8), np.array([8, 200], np.uint8)
    assert not run("BitShift", x, y, opset=28, direction="RIGHT").any()


def test_bit_cast_keeps_the_bytes() -> None:
    x = np.array([1.0, -0.0, np.inf], np.float32)
    np.testing.assert_array_equal(run("BitCast", x, opset=26, to=6), x.view(np.int32))


def test_bit_cast_to_another_width_is_refused() -> None:
    assert "widths differ" in refusal("BitCast", np.ones(2, np.float32), opset=26, to=11)
