"""n-gram counts and decision trees."""

from itertools import product

import numpy as np
import pytest
from onnx import numpy_helper
from single_node import assert_like_peer, refusal, run, sparsely

F = np.float32
X = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int32)
POOL = {
    "min_gram_length": 1,
    "max_gram_length": 2,
    "ngram_counts": [0, 4],
    "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
    "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
}


@pytest.mark.parametrize(("mode", "skip"), sparsely(product(["TF", "IDF", "TFIDF"], [0, 1, 5]), 4))
def test_n_grams_with_skips_and_weights(mode: str, skip: int) -> None:
    weights = [0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert_like_peer("TfIdfVectorizer", X, mode=mode, max_skip_count=skip, weights=weights, **POOL)


def test_a_pool_of_words_is_refused() -> None:
    options = {name: value for name, value in POOL.items() if name != "pool_int64s"}
    message = refusal(
        "TfIdfVectorizer", X, mode="TF", max_skip_count=0, pool_strings=["a"], **options
    )
    assert "strings" in message


TREE = {
    "tree_roots": [0],
    "nodes_featureids": [0, 1, 0],
    "nodes_modes": numpy_helper.from_array(np.array([0, 6, 3], np.uint8)),
    "nodes_splits": numpy_helper.from_array(np.array([1, np.nan, 3], F)),
    "nodes_truenodeids": [1, 0, 2],
    "nodes_trueleafs": [0, 1, 1],
    "nodes_falsenodeids": [2, 1, 3],
    "nodes_falseleafs": [0, 1, 1],
    "membership_values": numpy_helper.from_array(np.array([5, 7, np.nan], F)),
    "leaf_targetids": [0, 1, 0, 1],
    "leaf_weights": numpy_helper.from_array(np.array([10, 20, 30, 40], F)),
    "n_targets": 2,
}


def test_a_tree_with_membership_and_missing_values() -> None:
    # Node 0: x0 <= 1, node 1: x1 in {5, 7}, node 2: x0 > 3.
    x = np.array([[0, 5], [0, 6], [4, 0], [2, 0], [np.nan, 7]], F)
    found = run("TreeEnsemble", x, domain="ai.onnx.ml", **TREE)
    np.testing.assert_array_equal(found, [[10, 0], [0, 20], [30, 0], [0, 40], [0, 40]])


def test_an_unknown_transform_is_refused() -> None:
    message = refusal(
        "TreeEnsemble", np.zeros((1, 2), F), domain="ai.onnx.ml", post_transform=4, **TREE
    )
    assert "post_transform 4" in message
