"""Reshaping, slicing, padding, splitting against numpy."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_node import assert_like_peer, feeds, node_model, ours, refusal, run, sparsely

from compile.ops.indexing import runs

F = np.float32


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(F)


@given(st.lists(st.integers(0, 9), max_size=20))
def test_runs_give_back_their_positions(positions: list[int]) -> None:
    found = [
        first + step * n for first, count, step in runs(np.array(positions)) for n in range(count)
    ]
    assert found == positions


@settings(max_examples=6, deadline=None)
@given(
    st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([-3, -2, -1, 1, 2, 3]), st.booleans()
)
def test_slices_are_those_of_python(start: int, end: int, step: int, known: bool) -> None:
    x = draw(6, 4)
    bounds = [np.array([value], np.int64) for value in (start, end, 0, step)]
    model = node_model("Slice", [x, *bounds], opset=13, known=(1, 2, 3, 4))
    expected = x[start:end:step]
    if expected.size:
        np.testing.assert_array_equal(ours(model, {"i0": x})[0], expected)


def test_bounds_that_come_from_an_input_are_named() -> None:
    bounds = [np.array([value], np.int64) for value in (0, 2)]
    message = refusal("Slice", draw(6, 4), *bounds, opset=13)
    assert "node it: input 1 (i1) of Slice decides shapes" in message
    assert "further inputs that may have to be: i2" in message


@pytest.mark.parametrize(
    ("mode", "amounts"),
    sparsely(
        product(
            ["constant", "reflect", "edge", "wrap"],
            [(0, 2, 1, 3), (-1, 1, 2, -2), (3, 0, 0, 4)],
        ),
        4,
    ),
)
def test_padding(mode: str, amounts: tuple[int, ...]) -> None:
    x = draw(5, 6)
    cut = x[
        max(-amounts[0], 0) : 5 - max(-amounts[2], 0), max(-amounts[1], 0) : 6 - max(-amounts[3], 0)
    ]
    margins = [(max(amounts[a], 0), max(amounts[a + 2], 0)) for a in (0, 1)]
    found = run("Pad", x, np.array(amounts), opset=19, known=(1,), mode=mode)
    np.testing.assert_array_equal(found, np.pad(cut, margins, mode=mode))  # type: ignore[call-overload]


def test_padding_may_reflect_more_than_once() -> None:
    x = draw(1, 3)
    found = run("Pad", x, np.array([0, 5, 0, 4]), opset=19, known=(1,), mode="reflect")
    np.testing.assert_array_equal(found, np.pad(x, ((0, 0), (5, 4)), mode="reflect"))


def test_a_computed_pad_value() -> None:
    x, value = draw(2, 3), np.array(7, F)
    found = run("Pad", x, np.array([0, 1, 0, 1]), value, opset=13, known=(1,))
    np.testing.assert_array_equal(found, np.pad(x, ((0, 0), (1, 1)), constant_values=7))


@pytest.mark.parametrize(("count", "sizes"), [(2, [5, 5]), (3, [4, 4, 2]), (4, [3, 3, 3, 1])])
def test_an_uneven_split_makes_the_last_piece_smaller(count: int, sizes: list[int]) -> None:
    x = draw(10, 2)
    model = node_model("Split", [x], count, opset=18, num_outputs=count)
    pieces = ours(model, feeds(model, [x]))
    assert [len(piece) for piece in pieces] == sizes
    np.testing.assert_array_equal(np.concatenate(pieces), x)


def test_a_split_into_too_many_is_refused() -> None:
    x = draw(5, 2)
    model = node_model("Split", [x], 4, opset=18, num_outputs=4)
    with pytest.raises(Exception, match=r"node it: Split.*size 5 cannot be split into 4"):
        ours(model, feeds(model, [x]))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks_go_to_channels_and_back(mode: str) -> None:
    x = draw(1, 2, 4, 6)
    deep = run("SpaceToDepth", x, opset=28, blocksize=2, mode=mode)
    np.testing.assert_array_equal(run("DepthToSpace", deep, blocksize=2, mode=mode), x)


@pytest.mark.parametrize("axis", [-1, 0, 2])
def test_flatten(axis: int) -> None:
    assert_like_peer("Flatten", draw(2, 3, 4), axis=axis, atol=0)


def test_a_squeezed_axis_must_be_of_size_one() -> None:
    assert "not of size 1" in refusal("Squeeze", draw(2, 3), opset=11, axes=[1])
