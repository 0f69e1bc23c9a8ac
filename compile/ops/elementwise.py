"""Element-by-element arithmetic, comparison, logic and mathematical functions.

Semantics: the ONNX operator page of each name. Where a function here differs from tinygrad's
method of the same name, the comment says what was wrong there.
"""

from collections.abc import Callable
from functools import reduce
from math import pi
from typing import Any

from tinygrad import Tensor, dtypes

from compile.ops.registry import Op
from compile.values import dtype_of

# Exponents from 64 on shift every bit of an integer out.
_EXPONENT_BITS = 6


def div(x: Tensor, y: Tensor) -> Tensor:
    """Quotient; integers truncate towards zero."""
    return x.div(y, rounding_mode="trunc" if dtypes.is_int(x.dtype) else None)


def power(x: Tensor, y: Tensor) -> Tensor:
    """x to the power y in x's type. Integer powers are exact (float arithmetic is not)."""
    if dtypes.is_float(x.dtype):
        return x.pow(y.cast(x.dtype))
    if dtypes.is_float(y.dtype):
        return _truncated(x.cast(dtypes.float64).pow(y.cast(dtypes.float64))).cast(x.dtype)
    shape = (x + y.cast(x.dtype)).shape
    base, exponent = x.expand(shape), y.cast(dtypes.int64).expand(shape)
    result = base.const_like(1)
    for bit in range(_EXPONENT_BITS):
        result = ((exponent >> bit) & 1).ne(0).where(result * base, result)
        base = base * base
    if dtypes.is_unsigned(y.dtype):
        return result
    unit = (x.abs() == 1).expand(shape)
    return ((exponent < 0) & unit.logical_not()).where(0, result)


def _truncated(x: Tensor) -> Tensor:
    """Towards zero, but a value that misses a whole number only by rounding becomes that number."""
    nearest = x.round()
    return ((x - nearest).abs() <= nearest.abs() * 1e-12).where(nearest, x.trunc())


def modulo(x: Tensor, y: Tensor, fmod: int = 0) -> Tensor:
    """Remainder with the divisor's sign (fmod 0) or the dividend's (fmod 1).

    For an infinite divisor and a finite x the formulas x - floor(x / y) * y give NaN; the
    standard asks for x, or for y where the signs differ.
    """
    if dtypes.is_int(x.dtype):
        return x.fmod(y) if fmod else x % y
    infinite = y.isinf() & x.isfinite()
    safe = y.isinf().where(1, y)
    remainder = x - x.div(safe, rounding_mode="trunc") * safe
    if fmod:
        return infinite.where(x, remainder)
    adjusted = ((remainder != 0) & ((remainder < 0) != (safe < 0))).where(
        remainder + safe, remainder
    )
    opposite = (x != 0) & ((x < 0) != (y < 0))
    return infinite.where(opposite.where(y, x), adjusted)


def clip(x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:  # noqa: A002
    """x limited to [min, max]; max where min is larger."""
    low = x if min is None else (x < min).where(min, x)
    return low if max is None else (low > max).where(max, low)


def clip_attributes(x: Tensor, min: float = -3.4e38, max: float = 3.4e38) -> Tensor:  # noqa: A002
    """Clip of opset 6 to 10, with limits as attributes."""
    return x.clip(min, max)


def is_infinite(x: Tensor, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Whether x is plus or minus infinity, as asked."""
    return x.isinf(bool(detect_positive), bool(detect_negative))


def cast(x: Tensor, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """x in the element type `to`; `saturate` and `round_mode` only speak of 8-bit floats."""
    return x.cast(dtype_of(to))


def cast_like(x: Tensor, like: Tensor, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """x in the element type of `like`."""
    return x.cast(like.dtype)


def asinh(x: Tensor) -> Tensor:
    """Inverse hyperbolic sine, on |x|: log(x + sqrt(x² + 1)) cancels for negative x."""
    size = x.abs().asinh()
    return (x < 0).where(-size, size)


def not_above(x: Tensor, y: Tensor) -> Tensor:
    """x <= y; False for NaN (tinygrad's <= is "not y < x", which NaN makes True)."""
    return (x < y) | (x == y) if dtypes.is_float(x.dtype) else x <= y


def _keep_nan(x: Tensor, y: Tensor, chosen: Tensor) -> Tensor:
    """NaN where either is NaN; comparing alone would drop it from one side."""
    if not dtypes.is_float(x.dtype):
        return chosen
    return x.isnan().where(x, y.isnan().where(y, chosen))


def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1; NaN for NaN."""
    return x.isnan().where(x, x.sign()) if dtypes.is_float(x.dtype) else x.sign()


def atan(x: Tensor) -> Tensor:
    """Inverse tangent, beyond ±1 by its reciprocal, which infinity does not make NaN."""
    large = x.abs() > 1
    inner = large.where(x.reciprocal(), x).atan()
    return large.where((x < 0).where(-pi / 2, pi / 2) - inner, inner)


def _variadic(combine: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def combined(*xs: Tensor) -> Tensor:
        return reduce(combine, xs)

    return combined


def mean(*xs: Tensor) -> Tensor:
    """Arithmetic mean of the inputs."""
    return reduce(Tensor.add, xs) / len(xs)


def _legacy(binary: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Before opset 7 the second input is aligned at `axis` instead of at the end."""

    def aligned(x: Tensor, y: Tensor, broadcast: int = 0, axis: int | None = None) -> Tensor:
        if broadcast and axis is not None:
            y = y.reshape(*y.shape, *(1,) * (x.ndim - axis % x.ndim - y.ndim))
        return binary(x, y)

    return aligned


_BINARY: tuple[tuple[str, Callable[[Tensor, Tensor], Tensor]], ...] = (
    ("Add", lambda x, y: x + y),
    ("Sub", lambda x, y: x - y),
    ("Mul", lambda x, y: x * y),
    ("Div", div),
    ("Pow", power),
    ("Equal", lambda x, y: x == y),
    ("Greater", lambda x, y: x > y),
    ("Less", lambda x, y: x < y),
    ("And", lambda x, y: x & y),
    ("Or", lambda x, y: x | y),
    ("Xor", lambda x, y: x ^ y),
)

# The others take no attributes and mean in every opset what the method does.
_PLAIN: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("GreaterOrEqual", lambda x, y: not_above(y, x)),
    ("LessOrEqual", lambda x, y: not_above(x, y)),
    ("Not", lambda x: x.logical_not()),
    ("Neg", lambda x: -x),
    ("Abs", lambda x: x.abs()),
    ("Sign", sign),
    ("Reciprocal", lambda x: x.reciprocal()),
    ("Sqrt", lambda x: x.sqrt()),
    ("Exp", lambda x: x.exp()),
    ("Log", lambda x: x.log()),
    ("Floor", lambda x: x.floor()),
    ("Ceil", lambda x: x.ceil()),
    ("Round", lambda x: x.round()),
    ("Erf", lambda x: x.erf()),
    ("Sin", lambda x: x.sin()),
    ("Cos", lambda x: x.cos()),
    ("Tan", lambda x: x.tan()),
    ("Asin", lambda x: x.asin()),
    ("Acos", lambda x: x.acos()),
    ("Atan", atan),
    ("Sinh", lambda x: x.sinh()),
    ("Cosh", lambda x: x.cosh()),
    ("Asinh", asinh),
    ("Acosh", lambda x: x.acosh()),
    ("Atanh", lambda x: x.atanh()),
    ("IsNaN", lambda x: x.isnan()),
    ("Where", lambda condition, x, y: condition.where(x, y)),
    ("Sum", _variadic(Tensor.add)),
    ("Max", _variadic(lambda x, y: _keep_nan(x, y, x.maximum(y)))),
    ("Min", _variadic(lambda x, y: _keep_nan(x, y, x.minimum(y)))),
    ("Mean", mean),
)

OPS = (
    *(Op(name, run, since=7) for name, run in _BINARY),
    *(Op(name, _legacy(run)) for name, run in _BINARY),
    *(Op(name, run) for name, run in _PLAIN),
    Op("Mod", modulo),
    Op("Clip", clip, since=11),
    Op("Clip", clip_attributes),
    Op("IsInf", is_infinite),
    Op("Cast", cast, since=6),
    Op("CastLike", cast_like),
)
