"""Tensors as bytes, and safetensors files of them in one spelling.

The safetensors library speaks numpy, which has no bfloat16 and no 8-bit floats; state may be kept
in those. Reading and writing the format directly keeps every element type as it is. The header
has no metadata and names in order, so equal tensors give equal files.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tinygrad import dtypes
from tinygrad.dtype import DType

from modeld.errors import ModeldError

# Element types by the names used in manifests and messages: safetensors code and tinygrad type.
_TYPES: dict[str, tuple[str, DType]] = {
    "bool": ("BOOL", dtypes.bool),
    "int8": ("I8", dtypes.int8),
    "int16": ("I16", dtypes.int16),
    "int32": ("I32", dtypes.int32),
    "int64": ("I64", dtypes.int64),
    "uint8": ("U8", dtypes.uint8),
    "uint16": ("U16", dtypes.uint16),
    "uint32": ("U32", dtypes.uint32),
    "uint64": ("U64", dtypes.uint64),
    "float8_e4m3": ("F8_E4M3", dtypes.fp8e4m3),
    "float8_e5m2": ("F8_E5M2", dtypes.fp8e5m2),
    "bfloat16": ("BF16", dtypes.bfloat16),
    "float16": ("F16", dtypes.float16),
    "float32": ("F32", dtypes.float32),
    "float64": ("F64", dtypes.float64),
}
_NAMES = {dtype: name for name, (_, dtype) in _TYPES.items()}
_BY_CODE = {code: name for name, (code, _) in _TYPES.items()}
# The format's own limit on its header.
_MAX_HEADER = 100_000_000


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Element type by name, shape, and the elements little-endian in row-major order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


def dtype_name(dtype: DType) -> str:
    """The name of a tinygrad type; ModeldError for one that cannot be stored."""
    if dtype not in _NAMES:
        raise ModeldError(f"tensors of {dtype} cannot be stored; use one of {', '.join(_TYPES)}")
    return _NAMES[dtype]


def dtype_named(name: str) -> DType:
    """The tinygrad type so named; ModeldError for an unknown one."""
    if name not in _TYPES:
        raise ModeldError(f"element type {name!r} is unknown; use one of {', '.join(_TYPES)}")
    return _TYPES[name][1]


def dump(tensors: Mapping[str, StoredTensor]) -> bytes:
    """A safetensors file's content."""
    header: dict[str, Any] = {}
    end = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        start, end = end, end + len(tensor.data)
        code = _TYPES[tensor.dtype][0]
        header[name] = {"dtype": code, "shape": tensor.shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    # Eight-byte alignment of the data, which readers that map the file rely on.
    text += b" " * (-len(text) % 8)
    body = b"".join(tensors[name].data for name in sorted(tensors))
    return len(text).to_bytes(8, "little") + text + body


def parse(content: bytes, label: str) -> dict[str, StoredTensor]:
    """The tensors in a safetensors file's content; `label` names it in errors.

    Raises ModeldError when the content is not one, or its parts do not fill it exactly.
    """
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > min(_MAX_HEADER, len(content) - 8):
        raise _malformed(label, "its header is cut off")
    try:
        header = json.loads(content[8 : 8 + size])
    except (ValueError, RecursionError):
        raise _malformed(label, "its header is not JSON") from None
    if not isinstance(header, dict):
        raise _malformed(label, "its header is not an object")
    body = memoryview(content)[8 + size :]
    tensors, end = {}, 0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        tensors[name], end = _tensor(name, entry, body, end, label)
    if end != len(body):
        raise _malformed(label, f"it holds {len(body)} bytes of data, its header {end}")
    return tensors


def _tensor(
    name: str, entry: Any, body: memoryview, start: int, label: str
) -> tuple[StoredTensor, int]:
    try:
        dtype, shape = _BY_CODE[entry["dtype"]], tuple(entry["shape"])
        first, end = entry["data_offsets"]
        fits = (
            all(type(size) is int and size >= 0 for size in shape)
            and first == start
            and end - first == math.prod(shape) * _TYPES[dtype][1].itemsize
            and end <= len(body)
        )
    except (KeyError, TypeError, ValueError):
        fits = False
    if not fits:
        raise _malformed(label, f"its entry of {name!r} is wrong")
    return StoredTensor(dtype, shape, bytes(body[first:end])), end


def _malformed(label: str, reason: str) -> ModeldError:
    return ModeldError(f"{label} is not a safetensors file ({reason}); take another copy")
