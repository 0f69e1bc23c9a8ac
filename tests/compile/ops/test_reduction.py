"""Reductions, running sums and products."""

from itertools import product

import numpy as np
import pytest
from single_node import assert_like_peer, run, sparsely

F = np.float32
X = np.random.default_rng(6).standard_normal((2, 3, 4)).astype(F)
NAMES = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")


@pytest.mark.parametrize(("name", "keep"), sparsely(product(NAMES, [0, 1]), 3))
def test_reductions_over_some_axes(name: str, keep: int) -> None:
    x = np.abs(X) if name == "LogSum" else X
    assert_like_peer(f"Reduce{name}", x, opset=11, axes=[0, -1], keepdims=keep, atol=1e-5)


@pytest.mark.parametrize("name", sparsely(NAMES, 4))
def test_no_axes_may_mean_element_by_element(name: str) -> None:
    x, none = np.abs(X), np.zeros(0, np.int64)
    assert_like_peer(
        f"Reduce{name}", x, none, opset=18, known=(1,), noop_with_empty_axes=1, atol=1e-5
    )


def test_the_exponentials_of_a_sum_do_not_overflow() -> None:
    x = np.array([[300, 301, -1000], [-np.inf, -np.inf, -np.inf]], F)
    found = run("ReduceLogSumExp", x, np.array([1]), opset=18, known=(1,), keepdims=0)
    np.testing.assert_allclose(found, [np.logaddexp(300, 301), -np.inf], rtol=1e-6)


def test_means_of_integers_truncate() -> None:
    x = np.array([[7, 8], [-7, -8]], np.int32)
    found = run("ReduceMean", x, np.array([1]), opset=18, known=(1,), keepdims=0)
    np.testing.assert_array_equal(found, [7, -7])


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_products(exclusive: int, reverse: int) -> None:
    x = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], F)
    found = run(
        "CumProd", x, np.array(1), opset=26, known=(1,), exclusive=exclusive, reverse=reverse
    )
    steps = x[:, ::-1] if reverse else x
    products = np.cumprod(steps, 1)
    if exclusive:
        products = np.concatenate([np.ones((2, 1), F), products[:, :-1]], 1)
    np.testing.assert_array_equal(found, products[:, ::-1] if reverse else products)
