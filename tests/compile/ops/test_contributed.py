"""Operators of com.microsoft against ONNX Runtime."""

import numpy as np
import pytest
from single_node import assert_like_peer, refusal

F = np.float32
RNG = np.random.default_rng(21)
MS = "com.microsoft"


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(F)


def bytes_(*shape: int) -> np.ndarray:
    return RNG.integers(0, 255, shape).astype(np.uint8)


def real(value: float) -> np.ndarray:
    return np.array(value, F)


def byte(value: int) -> np.ndarray:
    return np.array(value, np.uint8)


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [("Relu", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.5]), ("HardSigmoid", [0.3, 0.4])],
)
def test_convolution_with_an_activation(activation: str, parameters: list[float]) -> None:
    options = {"activation_params": parameters} if parameters else {}
    assert_like_peer(
        "FusedConv",
        draw(1, 3, 6, 6),
        draw(4, 3, 3, 3),
        draw(4),
        domain=MS,
        activation=activation,
        pads=[1, 1, 1, 1],
        atol=1e-5,
        **options,
    )


def test_an_unknown_activation_is_refused() -> None:
    inputs = (draw(1, 1, 3, 3), draw(1, 1, 3, 3))
    assert "'Wobble'" in refusal("FusedConv", *inputs, domain=MS, activation="Wobble")


@pytest.mark.parametrize(("left", "right"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_matrix_product_with_transposes(left: int, right: int) -> None:
    a, b = draw(2, 4, 3) if left else draw(2, 3, 4), draw(2, 5, 4) if right else draw(2, 4, 5)
    assert_like_peer("FusedMatMul", a, b, domain=MS, transA=left, transB=right, alpha=0.5)


def test_quantised_gemm() -> None:
    bias = RNG.integers(-300, 300, 5).astype(np.int32)
    inputs = (bytes_(3, 4), real(0.02), byte(120), bytes_(5, 4), real(0.03), byte(99), bias)
    options = {"domain": MS, "transB": 1, "alpha": 1.5, "known": (4, 5)}
    assert_like_peer("QGemm", *inputs, real(0.1), byte(100), atol=1, **options)
    assert_like_peer("QGemm", *inputs, atol=1e-4, **options)


def test_integer_product_to_real_numbers() -> None:
    inputs = (bytes_(3, 4), bytes_(4, 5), real(0.02), real(0.03), byte(120), byte(99), draw(5))
    assert_like_peer("MatMulIntegerToFloat", *inputs, domain=MS, atol=1e-4)


def test_dynamically_quantised_product() -> None:
    inputs = (draw(3, 4), bytes_(4, 5), real(0.03), byte(99))
    assert_like_peer("DynamicQuantizeMatMul", *inputs, domain=MS, atol=1e-4)


def test_quantised_average_pooling() -> None:
    inputs = (bytes_(1, 2, 6, 6), real(0.02), byte(120), real(0.03), byte(9))
    assert_like_peer(
        "QLinearAveragePool",
        *inputs,
        domain=MS,
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        strides=[2, 2],
        atol=1,
    )


def test_normalisation_of_a_sum() -> None:
    x, skip, gamma = draw(1, 3, 8), draw(1, 3, 8), draw(8)
    assert_like_peer("SkipSimplifiedLayerNormalization", x, skip, gamma, domain=MS, epsilon=1e-3)


def test_quick_gelu() -> None:
    assert_like_peer("QuickGelu", draw(20), domain=MS, alpha=1.5)
