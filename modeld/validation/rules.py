"""Checks that all parts of the validation share, and the bounds they hold numbers against."""

from collections.abc import Iterable
from itertools import pairwise

from modeld.errors import ModeldError
from modeld.manifest import Tensor

# Far above any device of the field, and below where 64-bit sizes in drivers begin to wrap.
MAX_BYTES = 1 << 40
# numpy's bound on dimensions before version 2.
MAX_RANK = 32
# Bytes per element of what a tensor may be made of, by numpy's name.
ELEMENT_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}
SHOWN_CHARACTERS = 60

# First byte, byte after the last, and whose they are.
Span = tuple[int, int, str]


def unsound(what: str) -> ModeldError:
    """The error for a manifest that contradicts itself."""
    return ModeldError(f"the manifest is not sound: {what}; build the artifact again")


def quoted(name: str) -> str:
    """A name from the manifest on one line, of bounded length."""
    text = ascii(name)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."


def require_unique(what: str, names: Iterable[str]) -> None:
    """Every name occurs once."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise unsound(f"{what} {quoted(name)} is there twice")
        seen.add(name)


def require_between(what: str, value: int, low: int, high: int) -> None:
    """`low` <= `value` <= `high`."""
    if not low <= value <= high:
        shown = str(value) if abs(value) < 1 << 64 else "beyond 64 bits"
        raise unsound(f"{what} is {shown}, allowed is {low} to {high}")


def require_inside(what: str, offset: int, size: int, whole: int, alignment: int) -> None:
    """The bytes [offset, offset + size) lie inside [0, whole) and begin aligned."""
    require_between(f"offset of {what}", offset, 0, MAX_BYTES)
    require_between(f"bytes of {what}", size, 0, MAX_BYTES)
    if offset + size > whole:
        raise unsound(f"{what} ends at byte {offset + size} of a buffer of {whole}")
    if offset % alignment:
        raise unsound(f"{what} begins at byte {offset}, which is no multiple of {alignment}")


def require_apart(spans: Iterable[Span]) -> None:
    """No two spans of one buffer share a byte."""
    # In order of their first bytes some two neighbours overlap if any two spans do.
    ordered = sorted(span for span in spans if span[1] > span[0])
    for (_, stop, name), (start, _, other) in pairwise(ordered):
        if start < stop:
            raise unsound(f"{name} and {other} overlap")


def tensor_bytes(tensor: Tensor) -> int:
    """Bytes of a tensor, after checking its shape and dtype."""
    return array_bytes(quoted(tensor.name), tensor.shape, tensor.dtype)


def array_bytes(name: str, shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of an array, after checking its shape and dtype."""
    if dtype not in ELEMENT_BYTES:
        raise unsound(f"tensor {name} has the element type {quoted(dtype)}, which is not known")
    require_between(f"number of dimensions of {name}", len(shape), 0, MAX_RANK)
    size = ELEMENT_BYTES[dtype]
    for dimension in shape:
        require_between(f"a dimension of {name}", dimension, 0, MAX_BYTES)
        size *= dimension
    require_between(f"size of {name}", size, 0, MAX_BYTES)
    return size
