"""Values known when the model is built: shapes, ranges, fills, and their kin."""

from typing import Any

import numpy as np
import onnx

from compile.ops.registry import ONNX_DOMAIN, Array, Op, UnsupportedUseError, Value
from compile.values import from_numpy_dtype, numpy_dtype


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


def eye_like(like: Value, dtype: int | None = None, k: int = 0) -> Array:
    """Ones on diagonal k of a matrix shaped like the input, zeros elsewhere."""
    rows, columns = _dims(like)
    if dtype is not None:
        kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(dtype))
    else:
        kind = like.dtype if isinstance(like, np.ndarray) else numpy_dtype(like.dtype)  # type: ignore[union-attr]
    from_numpy_dtype(kind)
    return np.eye(rows, columns, k, dtype=kind)


def range_(start: Array, limit: Array, delta: Array, stash_type: int = 1) -> Array:
    """start, start + delta, … below limit. float16 is computed in float32."""
    first, last, step = (value.reshape(()) for value in (start, limit, delta))
    kind = np.dtype(np.float32) if start.dtype == np.float16 else start.dtype
    count = max(int(np.ceil((float(last) - float(first)) / float(step))), 0)
    values: Array = first.astype(kind) + np.arange(count).astype(kind) * step.astype(kind)
    return values.astype(start.dtype)


def _known_only(*inputs: Any, **attributes: Any) -> Array:
    raise UnsupportedUseError(
        "its inputs are known, but the onnx package cannot evaluate it; compute it before export"
    )


_EVERY_INPUT = tuple(range(8))

# Their output is a table or its shape depends on values: only for known inputs, and then the
# evaluator of the onnx package computes them.
_KNOWN_ONLY = (
    "Constant",
    "ConstantOfShape",
    "NonZero",
    "Unique",
    "HannWindow",
    "HammingWindow",
    "BlackmanWindow",
    "MelWeightMatrix",
)

OPS = (
    Op("Shape", shape, any_value=True),
    Op("Size", size, any_value=True),
    Op("Identity", identity, any_value=True),
    Op("EyeLike", eye_like, any_value=True),
    Op("Range", range_, constants=_EVERY_INPUT, foldable=False),
    *(Op(name, _known_only, constants=_EVERY_INPUT, domain=ONNX_DOMAIN) for name in _KNOWN_ONLY),
)
