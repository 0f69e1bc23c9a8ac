"""Values known when the model is built: shapes, ranges, fills, and their kin."""

import numpy as np

from compile.ops.registry import Array, Op, Value


def _dims(value: Value) -> tuple[int, ...]:
    """Static dimensions of a tensor or array."""
    if value is None or isinstance(value, list):
        raise ValueError("a sequence or an absent value has no shape")
    return tuple(int(d) for d in value.shape)


def shape(data: Value, start: int = 0, end: int | None = None) -> Array:
    """Dimensions `start` to `end` of the input."""
    return np.array(_dims(data)[start:end], np.int64)


def size(data: Value) -> Array:
    """Number of elements."""
    return np.array(np.prod(_dims(data), dtype=np.int64), np.int64)


def identity(value: Value) -> Value:
    """The input itself, tensor or sequence."""
    return value


OPS = (
    Op("Shape", shape, any_value=True),
    Op("Size", size, any_value=True),
    Op("Identity", identity, any_value=True),
)
