"""Quantised operators: integers with a scale and a zero point, real = (q - zero) * scale.

Rounding is to nearest even and division is true division: a product with the reciprocal can fall
on the other side of a tie.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tinygrad import Tensor, dtypes
from tinygrad.dtype import DType
from tinygrad.uop.ops import Ops

from compile.ops.convolution import conv
from compile.ops.registry import MICROSOFT_DOMAIN, Op
from compile.values import dtype_of


def divide(x: Tensor, y: Tensor) -> Tensor:
    """x / y, correctly rounded also where y is a constant (whose reciprocal would be taken)."""
    if x.device is None and y.device is None:
        # Of constants alone: tinygrad computes it, and knows no quotient there.
        return x / y
    shape = x._broadcasted(y)[0].shape
    kind = x.dtype if x.dtype.itemsize >= y.dtype.itemsize else y.dtype
    return x.cast(kind).expand(shape).alu(Ops.FDIV, y.cast(kind).expand(shape))


def _saturated(x: Tensor, dtype: DType) -> Tensor:
    return x.clip(dtype.min, dtype.max).cast(dtype)


def _along(value: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """A scale or zero point shaped to broadcast with x: whole, per axis or per block."""
    if value.numel() == 1:
        return value.reshape(())
    axis = axis % x.ndim
    if value.ndim == 1 and not block_size:
        return value.reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    wide = value.repeat_interleave(block_size, axis)
    return wide.shrink(tuple((0, size) if d == axis else None for d, size in enumerate(x.shape)))


def quantize(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    """saturate(round(x / scale) + zero point)."""
    dtype = dtypes.uint8
    if zero_point is not None:
        dtype = zero_point.dtype
    elif output_dtype:
        dtype = dtype_of(output_dtype)
    steps = _along(scale, x, axis, block_size)
    kind = dtype_of(precision) if precision else None
    if kind is not None:
        x, steps = x.cast(kind), steps.cast(kind)
    rounded = divide(x, steps).round().cast(dtypes.float32)
    if zero_point is not None:
        rounded = rounded + _along(zero_point, x, axis, block_size).cast(dtypes.float32)
    return _saturated(rounded, dtype)


def dequantize(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """(x - zero point) * scale."""
    difference = x.cast(dtypes.int32)
    if zero_point is not None:
        difference = difference - _along(zero_point, x, axis, block_size).cast(dtypes.int32)
    real = difference.cast(dtypes.float32) * _along(scale, x, axis, block_size)
    return real.cast(dtype_of(output_dtype) if output_dtype else scale.dtype)


def dynamic_quantize(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x as uint8, with the scale and zero point that its own range asks for."""
    low, high = x.min().minimum(0), x.max().maximum(0)
    scale = divide(high - low, Tensor.full((), 255.0, x.dtype, buffer=False))
    scale = (scale == 0).where(1, scale)
    zero = _saturated(divide(-low, scale).round(), dtypes.uint8)
    return quantize(x, scale, zero), scale, zero


def centred(x: Tensor, zero_point: Tensor | None, shape: Sequence[int] | None = None) -> Tensor:
    """Integers with the zero point taken off, as int32; `shape` places a per-channel one."""
    wide = x.cast(dtypes.int32)
    if zero_point is None:
        return wide
    zero = zero_point.cast(dtypes.int32)
    return wide - (zero.reshape(()) if zero.numel() == 1 else zero.reshape(shape or zero.shape))


def _channel_shape(w: Tensor) -> tuple[int, ...]:
    return (-1, *(1,) * (w.ndim - 1))


def requantized(total: Tensor, factor: Tensor, zero_point: Tensor | None, like: DType) -> Tensor:
    """saturate(round(total * factor) + zero point), in the zero point's type or else in `like`."""
    rounded = (total.cast(dtypes.float32) * factor).round()
    if zero_point is None:
        return _saturated(rounded, like)
    return _saturated(rounded + zero_point.cast(dtypes.float32), zero_point.dtype)


def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    b: Tensor | None = None,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Convolution in int32, scaled to the output's grid; padding is real zero."""
    total = conv(
        centred(x, x_zero_point),
        centred(w, w_zero_point, _channel_shape(w)),
        b,
        auto_pad,
        dilations,
        group,
        kernel_shape,
        pads,
        strides,
    )
    scales = w_scale if w_scale.numel() == 1 else w_scale.reshape(1, -1, *(1,) * (x.ndim - 2))
    return requantized(total, divide(x_scale * scales, y_scale), y_zero_point, x.dtype)


def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None = None,
    w_zero_point: Tensor | None = None,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Convolution in int32."""
    return conv(
        centred(x, x_zero_point),
        centred(w, w_zero_point, _channel_shape(w)),
        None,
        auto_pad,
        dilations,
        group,
        kernel_shape,
        pads,
        strides,
    )


def _rows(value: Tensor | None, a: Tensor) -> tuple[int, ...] | None:
    """A 1-D zero point of the left matrix belongs to its rows."""
    return (-1, 1) if value is not None and value.ndim == 1 and a.ndim > 1 else None


def matmul_integer(
    a: Tensor, b: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Tensor:
    """Matrix product in int32."""
    left = centred(a, a_zero_point, _rows(a_zero_point, a))
    return left.matmul(centred(b, b_zero_point))


def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Tensor:
    """Matrix product in int32, scaled to the output's grid."""
    total = matmul_integer(a, b, a_zero_point, b_zero_point)
    rows = _rows(a_scale, a)
    factor = (a_scale if rows is None else a_scale.reshape(rows)) * b_scale
    return requantized(total, divide(factor, y_scale), y_zero_point, a.dtype)


def _qlinear_binary(run: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def combined(*inputs: Tensor) -> Tensor:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, *y_zero = inputs
        real = run(dequantize(a, a_scale, a_zero), dequantize(b, b_scale, b_zero))
        return quantize(real, y_scale, y_zero[0] if y_zero else None)

    return combined


def _qlinear_unary(run: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def applied(
        x: Tensor,
        x_scale: Tensor,
        x_zero: Tensor | None,
        y_scale: Tensor,
        y_zero: Tensor | None = None,
        **attributes: Any,
    ) -> Tensor:
        return quantize(run(dequantize(x, x_scale, x_zero), **attributes), y_scale, y_zero)

    return applied


def _global_average(x: Tensor, channels_last: int = 0) -> Tensor:
    axes = range(1, x.ndim - 1) if channels_last else range(2, x.ndim)
    return x.mean(tuple(axes), keepdim=True)


def _leaky(x: Tensor, alpha: float = 0.01) -> Tensor:
    return x.leaky_relu(alpha)


def qlinear_concat(y_scale: Tensor, y_zero: Tensor, *parts: Tensor, axis: int) -> Tensor:
    """Inputs, each with its scale and zero point, joined on the output's grid."""
    real = [dequantize(*parts[n : n + 3]) for n in range(0, len(parts), 3)]
    return quantize(real[0].cat(*real[1:], dim=axis), y_scale, y_zero)


_MICROSOFT: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("QuantizeLinear", quantize),
    ("DequantizeLinear", dequantize),
    ("QLinearAdd", _qlinear_binary(lambda a, b: a + b)),
    ("QLinearMul", _qlinear_binary(lambda a, b: a * b)),
    ("QLinearSigmoid", _qlinear_unary(lambda x: x.sigmoid())),
    ("QLinearLeakyRelu", _qlinear_unary(_leaky)),
    ("QLinearGlobalAveragePool", _qlinear_unary(_global_average)),
    ("QLinearConcat", qlinear_concat),
)

OPS = (
    Op("QuantizeLinear", quantize),
    Op("DequantizeLinear", dequantize),
    Op("DynamicQuantizeLinear", dynamic_quantize),
    Op("QLinearConv", qlinear_conv, foldable=False),
    Op("QLinearMatMul", qlinear_matmul),
    Op("ConvInteger", conv_integer, foldable=False),
    Op("MatMulInteger", matmul_integer),
    *(Op(name, run, domain=MICROSOFT_DOMAIN, foldable=False) for name, run in _MICROSOFT),
)
