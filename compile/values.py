"""Between ONNX, numpy and tinygrad: element types, attributes, and constants on the device."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper
from tinygrad import Tensor, dtypes
from tinygrad.dtype import DType
from tinygrad.helpers import Context as TinygradContext

from modeld.errors import ModeldError

Array: TypeAlias = np.ndarray[Any, Any]

# ONNX TensorProto.DataType ↔ tinygrad, the element types the artifact can hold.
DTYPES: dict[int, DType] = {
    onnx.TensorProto.FLOAT: dtypes.float32,
    onnx.TensorProto.FLOAT16: dtypes.float16,
    onnx.TensorProto.DOUBLE: dtypes.float64,
    onnx.TensorProto.INT8: dtypes.int8,
    onnx.TensorProto.INT16: dtypes.int16,
    onnx.TensorProto.INT32: dtypes.int32,
    onnx.TensorProto.INT64: dtypes.int64,
    onnx.TensorProto.UINT8: dtypes.uint8,
    onnx.TensorProto.UINT16: dtypes.uint16,
    onnx.TensorProto.UINT32: dtypes.uint32,
    onnx.TensorProto.UINT64: dtypes.uint64,
    onnx.TensorProto.BOOL: dtypes.bool,
}
_BY_NUMPY = {np.dtype(onnx.helper.tensor_dtype_to_np_dtype(k)): v for k, v in DTYPES.items()}
_TO_NUMPY = {v: k for k, v in _BY_NUMPY.items()}


def dtype_of(elem_type: int) -> DType:
    """tinygrad's type for an ONNX element type; ModeldError for strings, bfloat16, float8, …."""
    if elem_type not in DTYPES:
        name = onnx.TensorProto.DataType.Name(elem_type)
        raise ModeldError(
            f"element type {name} is not supported; use float32, float16, float64, an integer of "
            "8 to 64 bits or bool"
        )
    return DTYPES[elem_type]


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """numpy's type for a tinygrad type."""
    found: np.dtype[Any] = _TO_NUMPY[dtype]
    return found


def from_numpy_dtype(dtype: np.dtype[Any]) -> DType:
    """tinygrad's type for a numpy type; ModeldError for a type that has none."""
    if np.dtype(dtype) not in _BY_NUMPY:
        raise ModeldError(
            f"element type {dtype} is not supported; use float, integer or bool tensors"
        )
    return _BY_NUMPY[np.dtype(dtype)]


def array_of(tensor: onnx.TensorProto, base_dir: Path | None) -> Array:
    """A tensor's values; external data is read from `base_dir`."""
    array: Array = numpy_helper.to_array(tensor, str(base_dir) if base_dir is not None else "")
    return array


def sparse_array_of(sparse: onnx.SparseTensorProto) -> Array:
    """A sparse tensor made dense; indices are linear (1-D) or coordinates (2-D)."""
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return dense


def attributes_of(node: onnx.NodeProto, base_dir: Path | None) -> dict[str, Any]:
    """A node's attributes as int, float, str, tuples of them, arrays and GraphProtos."""
    result: dict[str, Any] = {}
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, onnx.TensorProto):
            value = array_of(value, base_dir)
        elif isinstance(value, onnx.SparseTensorProto):
            value = sparse_array_of(value)
        elif isinstance(value, bytes):
            value = value.decode()
        elif not isinstance(value, (int, float, onnx.GraphProto, onnx.TypeProto)):
            items = tuple(v.decode() if isinstance(v, bytes) else v for v in value)
            is_tensors = bool(items) and isinstance(items[0], onnx.TensorProto)
            value = tuple(array_of(v, base_dir) for v in items) if is_tensors else items
        result[attribute.name] = value
    return result


@dataclass(frozen=True)
class HalfPlan:
    """Which float32 values lie in float16: those `stored`, and constants but the `kept` ones."""

    stored: frozenset[str]
    kept: frozenset[str]


class DeviceConstants:
    """Arrays known at build time as tensors, each uploaded once.

    Uniform arrays become constants inside the kernels and take no memory. The others are realized
    at once, so that a captured run finds them on the device; equal arrays share a buffer.
    `named` lists (first name given, tensor) of each buffer in order of appearance.
    """

    def __init__(self, float32: Collection[str] | None = None) -> None:
        """With `float32`, all float32 arrays but those of these names lie there in float16."""
        self._float32 = float32
        self.named: list[tuple[str, Tensor]] = []
        self._by_identity: dict[int, tuple[Array, Tensor]] = {}
        self._by_content: dict[tuple[bytes, str, tuple[int, ...]], Tensor] = {}

    def tensor(self, name: str, array: Array) -> Tensor:
        """The tensor that holds `array`."""
        known = self._by_identity.get(id(array))
        if known is not None:
            return known[1]
        tensor = self._uniform(array)
        if tensor is None and self._is_rounded(name, array):
            tensor = self.stored(name, array.astype(np.float16)).cast(dtypes.float32)
        elif tensor is None:
            tensor = self.stored(name, array)
        # The array is kept alive: its id is the key.
        self._by_identity[id(array)] = (array, tensor)
        return tensor

    def stored(self, name: str, array: Array) -> Tensor:
        """A tensor with memory of its own on the device that holds `array`."""
        contiguous = np.ascontiguousarray(array).reshape(array.shape)
        key = (hashlib.sha256(contiguous.data).digest(), contiguous.dtype.str, array.shape)
        if key not in self._by_content:
            # Uploading is no part of the model's run, even when a capture is going on.
            with TinygradContext(CAPTURING=0):
                dtype = from_numpy_dtype(array.dtype)
                made = Tensor(contiguous.reshape(-1), dtype=dtype).realize().reshape(array.shape)
            self._by_content[key] = made
            self.named.append((name, made))
        return self._by_content[key]

    def _is_rounded(self, name: str, array: Array) -> bool:
        if self._float32 is None or array.dtype != np.float32 or name in self._float32:
            return False
        # Computed at build time, it may be outside the measured ranges.
        return bool(np.abs(array).max() <= np.finfo(np.float16).max)

    @staticmethod
    def _uniform(array: Array) -> Tensor | None:
        if array.size == 0:
            return Tensor.zeros(*array.shape, dtype=from_numpy_dtype(array.dtype), buffer=False)
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
        if array.size > 1 and (raw[1:] != raw[0]).any():
            return None
        value = array.reshape(-1)[0].item()
        return Tensor.full(array.shape, value, from_numpy_dtype(array.dtype), buffer=False)


def frozen_arrays(values: Mapping[str, Any]) -> dict[str, Array]:
    """Frozen graph inputs as read-only arrays."""
    arrays = {name: np.array(value) for name, value in values.items()}
    for array in arrays.values():
        array.flags.writeable = False
    return arrays
