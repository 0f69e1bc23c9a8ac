"""Epilogue steps on the device, each against its definition in float64."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_bench import Bench

from compile.kernels import elementwise, epilogue
from compile.kernels.elementwise import Elementwise
from compile.kernels.launch import Kernel
from compile.kernels.layout import BLOCKED, NCHW
from modeld.errors import ModeldError


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, 0)


# Definitions of the ONNX operator pages.
MEANING = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "elu 0.7": lambda x: np.where(x < 0, 0.7 * np.expm1(x), x),
    "leaky_relu 0.2": lambda x: np.where(x < 0, 0.2 * x, x),
    "hard_sigmoid 0.2 0.5": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "erf": _erf,
    "clip -1.5 6.0": lambda x: np.clip(x, -1.5, 6),
    "clip -inf 0.5": lambda x: np.minimum(x, 0.5),
    "exp": np.exp,
    "sqrt": lambda x: np.sqrt(np.abs(x)),
    "softplus": _softplus,
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "neg": lambda x: -x,
    "abs": np.abs,
}
X = np.concatenate([np.linspace(-20, 20, 4001), [0.0, -0.0, 1e-30, -87.0, 87.0]]).astype(np.float32)


def kernel_of(step: str, count: int = X.size) -> Kernel:
    steps = ("abs", step) if step == "sqrt" else (step,)
    return elementwise.render(Elementwise((count,), NCHW, steps))


def binary_kernel(operation: str) -> Kernel:
    return elementwise.render(Elementwise((32,), NCHW, (f"{operation} tensor 0",)))


@pytest.fixture(scope="module")
def bench() -> Bench:
    bench = Bench()
    bench.compile([*map(kernel_of, MEANING), *map(binary_kernel, epilogue.BINARY)])
    return bench


@pytest.mark.parametrize("step", MEANING)
def test_step_is_its_definition(step: str, bench: Bench) -> None:
    (found,) = bench.run(kernel_of(step), [X.shape], [X])
    expected = MEANING[step](X.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=4e-7)


@pytest.mark.parametrize("step", MEANING)
def test_nan_stays_nan(step: str, bench: Bench) -> None:
    x = np.where(np.arange(X.size) % 3 == 0, np.float32(np.nan), X)
    (found,) = bench.run(kernel_of(step), [X.shape], [x])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))


@pytest.mark.parametrize("operation", sorted(epilogue.BINARY))
def test_operands_hand_nan_on(operation: str, bench: Bench) -> None:
    x = np.array([np.nan, -1.0, np.nan, -1.0], np.float32).repeat(8)
    other = np.array([np.nan, np.nan, 2.0, 2.0], np.float32).repeat(8)
    (found,) = bench.run(binary_kernel(operation), [x.shape], [x, other])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x) | np.isnan(other))


def test_the_exponential_at_its_ends(bench: Bench) -> None:
    x = np.full(X.size, 0.0, np.float32)
    x[:6] = [88.722, -86.5, 88.73, np.inf, -88.0, -np.inf]
    with np.errstate(over="ignore", under="ignore"):
        expected = np.exp(x[:4])
    (found,) = bench.run(kernel_of("exp"), [x.shape], [x])
    np.testing.assert_allclose(found[:4], expected, rtol=2e-7)
    np.testing.assert_array_equal(found[4:6], 0.0)
    dense = np.linspace(-5, 5, X.size).astype(np.float32)
    (found,) = bench.run(kernel_of("exp"), [x.shape], [dense])
    np.testing.assert_allclose(found, np.exp(dense.astype(np.float64)), rtol=1.5e-7)


def test_every_step_has_a_definition_here() -> None:
    assert {step.split()[0] for step in MEANING} == set(epilogue.UNARY)


def test_operands_are_numbers_channels_and_tensors(bench: Bench) -> None:
    shape = (2, 2, 1, 3, 16)
    rng = np.random.default_rng(0)
    x, t = rng.standard_normal((2, *shape), np.float32)
    a, b = rng.standard_normal((2, 32), np.float32)
    steps = ("mul channel 0", "add tensor 0", "rsub number 2.5", "prelu channel 1", "max tensor 0")
    kernel = elementwise.render(Elementwise(shape, BLOCKED, steps))
    (found,) = bench.run(kernel, [shape], [x, a, b, t])
    per_channel = (1, 2, 1, 1, 16)
    v = 2.5 - (x * a.reshape(per_channel) + t)
    expected = np.maximum(np.where(v < 0, v * b.reshape(per_channel), v), t)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@given(st.floats(width=32, allow_nan=False))
def test_literals_are_exact(value: float) -> None:
    text = epilogue.literal(value)
    if math.isinf(value):
        assert text == ("INFINITY" if value > 0 else "-INFINITY")
    else:
        assert np.float32(float.fromhex(text.removesuffix("f"))) == np.float32(value)


def test_unknown_step_is_named() -> None:
    with pytest.raises(ModeldError, match=re.escape("epilogue step 'swirl 2' is unknown")):
        epilogue.render(("swirl 2",))
