"""Normalisations, dropout and losses."""

import numpy as np
import pytest
from single_node import assert_like_peer, refusal, run

F = np.float32


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(F)


@pytest.mark.parametrize("p", [1, 2])
def test_a_norm_of_zero_gives_zeros(p: int) -> None:
    x = np.array([[3, 4], [0, 0]], F)
    expected = {1: [[3 / 7, 4 / 7], [0, 0]], 2: [[0.6, 0.8], [0, 0]]}[p]
    np.testing.assert_allclose(run("LpNormalization", x, p=p, axis=1), expected, rtol=1e-6)


@pytest.mark.parametrize(("opset", "scales"), [(18, 3), (21, 6)])
def test_group_scales_were_per_group_before_opset_21(opset: int, scales: int) -> None:
    x, scale, bias = draw(2, 6, 4, 3), draw(scales), draw(scales)
    assert_like_peer("GroupNormalization", x, scale, bias, opset=opset, num_groups=3, atol=1e-5)


@pytest.mark.parametrize("size", [3, 5])
def test_local_response(size: int) -> None:
    assert_like_peer("LRN", np.abs(draw(2, 7, 3, 3)), size=size, alpha=0.5, beta=0.6, bias=1.5)


def test_layer_statistics_in_the_type_of_a_double() -> None:
    x, scale = draw(2, 3, 4).astype(float), draw(4).astype(float)
    assert_like_peer("LayerNormalization", x + 1e4, scale, opset=17, atol=1e-6)


@pytest.mark.parametrize("axes", [None, [1], [0, 2, 3]])
def test_mean_and_variance_over_axes(axes: list[int] | None) -> None:
    options = {} if axes is None else {"axes": axes}
    assert_like_peer("MeanVarianceNormalization", draw(2, 3, 4, 5), opset=13, atol=1e-5, **options)


def test_dropout_does_nothing_at_inference() -> None:
    x = draw(3, 4)
    np.testing.assert_array_equal(run("Dropout", x, np.array(0.9, F), opset=13, known=(1,)), x)


def test_dropout_in_training_is_refused() -> None:
    message = refusal("Dropout", draw(3), np.array(0.5, F), np.array(True), opset=13, known=(1, 2))
    assert "drops 0.5 of its input at random" in message


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_losses_with_weights_and_an_ignored_class(reduction: str) -> None:
    labels, weights = np.array([0, 4, 2]), np.abs(draw(5))
    options = {"opset": 13, "reduction": reduction, "ignore_index": 2}
    assert_like_peer("SoftmaxCrossEntropyLoss", draw(3, 5), labels, weights, atol=1e-5, **options)
