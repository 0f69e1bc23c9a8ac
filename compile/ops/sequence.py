"""Sequences and optionals: they exist only while the model is built."""

import numpy as np
from tinygrad import Tensor

from compile.ops.registry import Array, Context, Op, Value


def _position(index: Array | None, length: int, default: int) -> int:
    if index is None:
        return default
    position = int(index.reshape(-1)[0])
    return position + length if position < 0 else position


def construct(*values: Value) -> list[Value]:
    """A sequence of the inputs."""
    return list(values)


def empty(dtype: int = 1) -> list[Value]:
    """A sequence without elements."""
    return []


def at(sequence: list[Value], position: Array) -> Value:
    """The element at a position."""
    return sequence[_position(position, len(sequence), 0)]


def erase(sequence: list[Value], position: Array | None = None) -> list[Value]:
    """The sequence without the element at a position, by default the last."""
    drop = _position(position, len(sequence), len(sequence) - 1)
    return sequence[:drop] + sequence[drop + 1 :]


def insert(sequence: list[Value], value: Value, position: Array | None = None) -> list[Value]:
    """The sequence with a value before a position, by default at the end."""
    where = _position(position, len(sequence), len(sequence))
    return [*sequence[:where], value, *sequence[where:]]


def length(sequence: list[Value]) -> Array:
    """Number of elements."""
    return np.array(len(sequence), np.int64)


def split_to_sequence(
    x: Tensor, split: Array | None = None, axis: int = 0, keepdims: int = 1
) -> list[Value]:
    """Pieces along an axis: of one size (a scalar `split`), of sizes, or of size 1."""
    axis, size = axis % x.ndim, x.shape[axis]
    if split is None:
        pieces = x.split([1] * size, axis)
        return [piece if keepdims else piece.squeeze(axis) for piece in pieces]
    if split.ndim:
        return list(x.split([int(s) for s in split], axis))
    chunk = int(split)
    return list(x.split([min(chunk, size - at) for at in range(0, size, chunk)], axis))


def concat_from_sequence(
    sequence: list[Value], axis: int, new_axis: int = 0, *, context: Context
) -> Tensor:
    """Elements joined along an axis, or stacked along a new one."""
    first, *others = (context.tensor(value) for value in sequence)
    return first.stack(*others, dim=axis) if new_axis else first.cat(*others, dim=axis)


def optional(value: Value = None, type: object = None) -> Value:  # noqa: A002 (its ONNX name)
    """The value, or an empty optional."""
    return value


def has_element(value: Value = None) -> Array:
    """Whether there is a value."""
    return np.array(value is not None)


def get_element(value: Value) -> Value:
    """The value of an optional that has one."""
    if value is None:
        raise ValueError("the optional is empty")
    return value


OPS = (
    Op("SequenceConstruct", construct, any_value=True),
    Op("SequenceEmpty", empty, any_value=True, foldable=False),
    Op("SequenceAt", at, constants=(1,), any_value=True),
    Op("SequenceErase", erase, constants=(1,), any_value=True),
    Op("SequenceInsert", insert, constants=(2,), any_value=True),
    Op("SequenceLength", length, any_value=True),
    Op("SplitToSequence", split_to_sequence, since=11, constants=(1,)),
    Op("ConcatFromSequence", concat_from_sequence, any_value=True, context=True),
    Op("Optional", optional, any_value=True, foldable=False),
    Op("OptionalHasElement", has_element, any_value=True, foldable=False),
    Op("OptionalGetElement", get_element, any_value=True, foldable=False),
)
