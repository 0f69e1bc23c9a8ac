"""Gathering and scattering against numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_node import Array, assert_like_peer, feeds, node_model, ours, run

F = np.float32
RNG = np.random.default_rng(9)


def draw(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(F)


@pytest.mark.parametrize("known", [(), (1,)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_with_negative_and_repeated_indices(known: tuple[int, ...], axis: int) -> None:
    x, index = draw(3, 4, 5), np.array([[0, 2], [-1, 2]], np.int64)
    found = run("Gather", x, index, known=known, axis=axis)
    np.testing.assert_array_equal(found, np.take(x, index, axis))


@pytest.mark.parametrize("batch_dims", [0, 1, 2])
def test_gather_nd_within_batches(batch_dims: int) -> None:
    index = {
        0: np.array([[0, 1], [-1, 2]]),
        1: np.array([[[1]], [[-3]]]),
        2: np.array([[[1], [0], [4]], [[3], [-2], [1]]]),
    }[batch_dims]
    assert_like_peer("GatherND", draw(2, 3, 5), index, batch_dims=batch_dims)


NUMPY_REDUCTIONS = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


@pytest.mark.parametrize("reduction", NUMPY_REDUCTIONS)
@pytest.mark.parametrize("known", [(), (1,)])
def test_scatter_nd_reduces_repeated_rows(reduction: str, known: tuple[int, ...]) -> None:
    x, rows, updates = draw(4, 3), np.array([[0], [2], [0], [-1]]), draw(4, 3)
    found = run("ScatterND", x, rows, updates, opset=18, known=known, reduction=reduction)
    expected = x.copy()
    for row, update in zip(rows[:, 0], updates, strict=True):
        expected[row] = NUMPY_REDUCTIONS[reduction](expected[row], update)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("known", [(), (1,)])
def test_the_last_of_several_updates_stays(known: tuple[int, ...]) -> None:
    x, rows, updates = draw(4, 3), np.array([[1], [3], [1]]), draw(3, 3)
    expected = x.copy()
    expected[[3, 1]] = updates[[1, 2]]
    np.testing.assert_array_equal(
        run("ScatterND", x, rows, updates, opset=18, known=known), expected
    )


def test_scattering_leaves_its_input_alone() -> None:
    x, rows, updates = draw(3, 2), np.array([[1]]), draw(1, 2)
    inputs = (x, rows, updates)
    model = node_model("ScatterND", inputs, opset=18)
    model.graph.node.add(op_type="Identity", input=["i0"], output=["o1"], name="copy")
    model.graph.output.add(name="o1").CopyFrom(model.graph.input[0])
    model.graph.output[1].name = "o1"
    np.testing.assert_array_equal(ours(model, feeds(model, inputs))[1], x)


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0, 1]))
def test_scatter_elements_equals_put_along_axis(seed: int, axis: int) -> None:
    rng = np.random.default_rng(seed)
    x, updates = rng.standard_normal((4, 5)).astype(F), rng.standard_normal((4, 5)).astype(F)
    index = np.argsort(rng.random((4, 5)), axis)
    expected = x.copy()
    np.put_along_axis(expected, index, updates, axis)
    found = run("ScatterElements", x, index, updates, opset=18, axis=axis)
    np.testing.assert_array_equal(found, expected)


def test_updates_may_cover_a_part() -> None:
    index, updates = np.array([[0, 1, -1], [2, 0, 1]]), draw(2, 3)
    assert_like_peer("ScatterElements", draw(4, 5), index, updates, opset=18, axis=1, atol=0)


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_a_cache_is_written_from_each_batch_s_position(mode: str) -> None:
    cache, update, first = (
        draw(2, 1, 4, 3),
        draw(2, 1, 2, 3),
        np.array([1, 3 if mode == "circular" else 2]),
    )
    found = run("TensorScatter", cache, update, first, opset=24, mode=mode)
    expected = cache.copy()
    for batch, start in enumerate(first):
        for step in range(2):
            expected[batch, :, (start + step) % 4] = update[batch, :, step]
    np.testing.assert_array_equal(found, expected)


def test_one_hot_leaves_out_what_is_out_of_range() -> None:
    index = np.array([0, -1, 4, -5, 2], np.int64)
    found = run("OneHot", index, np.array(4), np.array([7, 9], F), known=(1,))
    expected = np.full((5, 4), 7, F)
    expected[0, 0] = expected[1, 3] = expected[4, 2] = 9
    np.testing.assert_array_equal(found, expected)


def test_sequences_are_reversed_up_to_their_length() -> None:
    x, lengths = draw(4, 3, 2), np.array([1, 3, 4], np.int64)
    expected = x.copy()
    for batch, length in enumerate(lengths):
        expected[:length, batch] = x[:length, batch][::-1]
    np.testing.assert_array_equal(run("ReverseSequence", x, lengths, opset=10), expected)


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float32])
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k_prefers_the_first_of_equals(kind: type, largest: int) -> None:
    x = RNG.integers(0, 4, (2, 9)).astype(kind)
    model = node_model("TopK", [x, np.array([5])], 2, opset=11, known=(1,), largest=largest)
    if kind is np.uint8:
        values, positions = ours(model, {"i0": x})
        order = np.argsort(-x.astype(int) if largest else x, axis=1, kind="stable")[:, :5]
        np.testing.assert_array_equal(positions, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))
    else:
        assert_like_peer("TopK", x, np.array([5]), outputs=2, opset=11, known=(1,), largest=largest)


@pytest.mark.parametrize("op", ["ArgMin", "ArgMax"])
@pytest.mark.parametrize("last", [0, 1])
def test_unsigned_extremes(op: str, last: int) -> None:
    x = np.array([[0, 255, 7, 0, 255]], np.uint8)
    expected = {"ArgMin": (0, 3), "ArgMax": (1, 4)}[op][last]
    found = run(op, x, opset=13, axis=1, select_last_index=last)
    np.testing.assert_array_equal(found, [[expected]])
