"""Operators of the domain com.microsoft that ONNX Runtime's tools fuse and quantise models into.

Formulas: ONNX Runtime's page of contributed operators.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tinygrad import Tensor, dtypes

from compile.ops.activation import hard_sigmoid, relu
from compile.ops.convolution import conv
from compile.ops.linear import gemm
from compile.ops.normalization import rms_normalization
from compile.ops.pooling import average_pool
from compile.ops.quantize import (
    centred,
    dequantize,
    divide,
    dynamic_quantize,
    matmul_integer,
    quantize,
    requantized,
)
from compile.ops.registry import MICROSOFT_DOMAIN, Context, Op

# Names of fused activations: (x, their parameters) → y.
_ACTIVATIONS: dict[str, Callable[[Tensor, Sequence[float]], Tensor]] = {
    "": lambda x, p: x,
    "Relu": lambda x, p: relu(x),
    "Sigmoid": lambda x, p: x.sigmoid(),
    "Tanh": lambda x, p: x.tanh(),
    "LeakyRelu": lambda x, p: x.leaky_relu(*p[:1]),
    "Clip": lambda x, p: x.clip(p[0], p[1]),
    "HardSigmoid": lambda x, p: hard_sigmoid(x, *p[:2]),
}


def _activated(x: Tensor, name: str, parameters: Sequence[float]) -> Tensor:
    if name not in _ACTIVATIONS:
        raise ValueError(f"activation {name!r} is none of {', '.join(filter(None, _ACTIVATIONS))}")
    return _ACTIVATIONS[name](x, parameters)


def fused_conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    z: Tensor | None = None,
    activation: str = "",
    activation_params: Sequence[float] = (),
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """activation(convolution + z)."""
    y = conv(x, w, b, auto_pad, dilations, group, kernel_shape, pads, strides)
    return _activated(y if z is None else y + z, activation, activation_params)


def fused_gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
) -> Tensor:
    """activation(alpha A B + beta C)."""
    parameters = [p for p in (activation_alpha, activation_beta) if p is not None]
    return _activated(gemm(a, b, c, alpha, beta, transA, transB), activation, parameters)


def fused_matmul(
    a: Tensor,
    b: Tensor,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    """alpha A B, matrices transposed as asked."""
    if transBatchA or transBatchB:
        raise ValueError("transBatchA and transBatchB are not supported; transpose before")
    left = a.transpose(-1, -2) if transA and a.ndim > 1 else a
    right = b.transpose(-1, -2) if transB and b.ndim > 1 else b
    return left.matmul(right) * alpha


def qgemm(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    c: Tensor | None = None,
    y_scale: Tensor | None = None,
    y_zero: Tensor | None = None,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """alpha A B + C of quantised matrices; C is int32 on the grid of A B. Real without y_scale."""
    left = centred(a.transpose(0, 1) if transA else a, a_zero)
    right = centred(b.transpose(0, 1) if transB else b, b_zero)
    total = left.matmul(right)
    total = total if c is None else total + c
    factor = a_scale * b_scale * alpha
    if y_scale is None:
        return total.cast(dtypes.float32) * factor
    return requantized(total, divide(factor, y_scale), y_zero, a.dtype)


def matmul_integer_to_float(
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The real product of quantised matrices, plus bias."""
    y = matmul_integer(a, b, a_zero, b_zero).cast(dtypes.float32) * (a_scale * b_scale)
    return y if bias is None else y + bias


def dynamic_quantize_matmul(
    a: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The product of A, quantised by its own range, with a quantised B."""
    quantised, scale, zero = dynamic_quantize(a)
    return matmul_integer_to_float(quantised, b, scale, b_scale, zero, b_zero, bias)


def qlinear_average_pool(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
    channels_last: int = 0,
    *,
    context: Context,
    **options: Any,
) -> Tensor:
    """Average pooling of quantised images."""
    if channels_last:
        raise ValueError("channels_last is not supported; transpose before")
    real = average_pool(dequantize(x, x_scale, x_zero), context=context, **options)
    return quantize(real, y_scale, y_zero)


def skip_simplified_layer_normalization(
    x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None, epsilon: float = 1e-5
) -> tuple[Tensor | None, ...]:
    """Root-mean-square normalisation of x + skip (+ bias), and that sum as the fourth output."""
    total = x + skip if bias is None else x + skip + bias
    return rms_normalization(total, gamma, -1, epsilon), None, None, total


def quick_gelu(x: Tensor, alpha: float = 1.702) -> Tensor:
    """x * sigmoid(alpha * x)."""
    return x * (alpha * x).sigmoid()


_PLAIN: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("FusedConv", fused_conv),
    ("FusedGemm", fused_gemm),
    ("FusedMatMul", fused_matmul),
    ("QGemm", qgemm),
    ("MatMulIntegerToFloat", matmul_integer_to_float),
    ("DynamicQuantizeMatMul", dynamic_quantize_matmul),
    ("SkipSimplifiedLayerNormalization", skip_simplified_layer_normalization),
    ("QuickGelu", quick_gelu),
)

OPS = (
    *(Op(name, run, domain=MICROSOFT_DOMAIN, foldable=False) for name, run in _PLAIN),
    Op(
        "QLinearAveragePool",
        qlinear_average_pool,
        domain=MICROSOFT_DOMAIN,
        context=True,
        foldable=False,
    ),
)
