"""NonMaxSuppression against ONNX Runtime, and the rows that fill up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from single_node import feeds, node_model, ours, peer, refusal

from compile.ops.nms import with_declared_rows

F = np.float32


def limits(most: int, iou: float, score: float) -> tuple[np.ndarray, ...]:
    return np.array([most], np.int64), np.array([iou], F), np.array([score], F)


def both(
    boxes: np.ndarray, scores: np.ndarray, rows: int, *bounds: float, center: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    inputs = (boxes, scores, *limits(*bounds))  # type: ignore[arg-type]
    model = node_model(
        "NonMaxSuppression",
        inputs,
        opset=11,
        known=(2, 3, 4),
        shapes=[(rows, 3)],
        center_point_box=center,
    )
    given_ = feeds(model, inputs)
    expected = with_declared_rows(model, {"o0": peer(model, given_)[0]})["o0"]
    return ours(model, given_)[0], expected


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0, 1]), st.floats(0.1, 0.9))
def test_keeps_what_onnxruntime_keeps(seed: int, center: int, iou: float) -> None:
    rng = np.random.default_rng(seed)
    boxes = rng.random((2, 12, 4)).astype(F)
    scores = rng.random((2, 3, 12)).astype(F)
    found, expected = both(boxes, scores, 40, 6, iou, 0.2, center=center)
    np.testing.assert_array_equal(found, expected)


def test_equal_scores_keep_the_first_box() -> None:
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 1], [5, 5, 6, 6]]], F)
    found, expected = both(boxes, np.full((1, 1, 3), 0.5, F), 2, 3, 0.5, 0.0)
    np.testing.assert_array_equal(found, [[0, 0, 0], [0, 0, 2]])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("rows", [1, 5])
def test_declared_rows_cut_or_fill(rows: int) -> None:
    boxes = np.array([[[0, 0, 1, 1], [5, 5, 6, 6]]], F)
    found, _ = both(boxes, np.array([[[0.9, 0.8]]], F), rows, 3, 0.5, 0.0)
    kept = np.array([[0, 0, 0], [0, 0, 1]])[:rows]
    np.testing.assert_array_equal(
        found, np.pad(kept, ((0, rows - len(kept)), (0, 0)), constant_values=-1)
    )


def test_without_declared_rows_it_is_refused() -> None:
    message = refusal(
        "NonMaxSuppression",
        np.zeros((1, 2, 4), F),
        np.zeros((1, 1, 2), F),
        *limits(1, 0.5, 0),
        opset=11,
        known=(2, 3, 4),
    )
    assert "declare the number of rows" in message
