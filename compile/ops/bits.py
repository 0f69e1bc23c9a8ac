"""Operators on the bits of integers, and reinterpretation."""

from tinygrad import Tensor, dtypes

from compile.ops.registry import Op
from compile.values import dtype_of


def bit_shift(x: Tensor, y: Tensor, direction: str) -> Tensor:
    """x shifted by y bits.

    Amounts below zero or from the width on leave what sign extension leaves: -1 for a negative x
    shifted right, else 0. (The C operator is undefined for them.)
    """
    bits = 8 * x.dtype.itemsize
    outside = y >= bits
    if not dtypes.is_unsigned(y.dtype):
        outside = outside | (y < 0)
    amount = outside.where(0, y)
    if direction == "LEFT":
        return outside.where(0, x << amount)
    if direction == "RIGHT":
        filled = x.const_like(0) if dtypes.is_unsigned(x.dtype) else (x < 0).where(-1, 0)
        return outside.where(filled.cast(x.dtype), x >> amount)
    raise ValueError(f"direction {direction!r} is neither LEFT nor RIGHT")


def bit_cast(x: Tensor, to: int) -> Tensor:
    """x's bytes read as element type `to` of the same width."""
    dtype = dtype_of(to)
    if dtype.itemsize != x.dtype.itemsize:
        raise ValueError(
            f"element type {x.dtype} cannot be reinterpreted as {dtype}: widths differ"
        )
    if x.dtype == dtypes.bool:
        return x.cast(dtypes.uint8).bitcast(dtype)
    return x.bitcast(dtypes.uint8).cast(dtypes.bool) if dtype == dtypes.bool else x.bitcast(dtype)


OPS = (
    Op("BitShift", bit_shift),
    Op("BitCast", bit_cast),
    Op("BitwiseAnd", lambda x, y: x & y),
    Op("BitwiseOr", lambda x, y: x | y),
    Op("BitwiseXor", lambda x, y: x ^ y),
    Op("BitwiseNot", lambda x: ~x),
)
