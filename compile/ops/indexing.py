"""Selecting along an axis: by positions known at build time, or by positions in a tensor."""

from collections.abc import Sequence
from math import prod

import numpy as np
from tinygrad import Tensor, dtypes

from compile.ops.registry import Array, Context

# Up to this many pieces a selection is slices joined together, which fuses into its reader;
# beyond, positions become an index tensor.
_MAX_PIECES = 32
# OpenCL promises 1024 bytes of kernel arguments, 128 pointers; one group leaves room.
_MAX_ARGUMENTS = 32


def runs(positions: Array) -> list[tuple[int, int, int]]:
    """Split positions into (first, count, step) runs with steps +1, -1 or 0, as long as can be."""
    found: list[tuple[int, int, int]] = []
    index = 0
    while index < len(positions):
        first, end, step = int(positions[index]), index + 1, 1
        if end < len(positions) and abs(int(positions[end]) - first) <= 1:
            step = int(positions[end]) - first
            while end < len(positions) and positions[end] - positions[end - 1] == step:
                end += 1
        found.append((first, end - index, step))
        index = end
    return found


def _piece(x: Tensor, axis: int, run: tuple[int, int, int]) -> Tensor:
    first, count, step = run
    low, high = (
        (first - count + 1, first + 1) if step < 0 else (first, first + 1 + step * (count - 1))
    )
    bounds: list[tuple[int, int] | None] = [None] * x.ndim
    bounds[axis] = (low, high)
    piece = x.shrink(tuple(bounds))
    if step < 0:
        return piece.flip(axis)
    if step == 0:
        return piece.expand(*x.shape[:axis], count, *x.shape[axis + 1 :])
    return piece


def _regular(x: Tensor, axis: int, positions: Array) -> Tensor | None:
    """Every position the same number of times, or every n-th one: views, no index needed."""
    size, count = x.shape[axis], len(positions)
    if count % size == 0 and (positions == np.arange(count) // (count // size)).all():
        return x.repeat_interleave(count // size, axis)
    step = int(positions[1] - positions[0]) if count > 1 else 1
    if step > 1 and (np.diff(positions) == step).all():
        first, last = int(positions[0]), int(positions[-1])
        return x[(*(slice(None),) * axis, slice(first, last + 1, step))]
    return None


def take_static(context: Context, x: Tensor, axis: int, positions: Array) -> Tensor:
    """x at `positions` (1-D, non-negative, known) along `axis`."""
    if not len(positions):
        return x.shrink(tuple((0, 0) if d == axis else None for d in range(x.ndim)))
    if (regular := _regular(x, axis, positions)) is not None:
        return regular
    pieces = runs(positions)
    # Joined pieces of which some are flipped are more than tinygrad's code generation can bear.
    flipped = len(pieces) > 1 and any(step < 0 for _, _, step in pieces)
    if len(pieces) > _MAX_PIECES or flipped:
        return take(x, axis, context.tensor(positions.astype(np.int32)))
    parts = [_piece(x, axis, run) for run in pieces]
    return parts[0] if len(parts) == 1 else parts[0].cat(*parts[1:], dim=axis)


def wrap(index: Tensor, size: int) -> Tensor:
    """Positions counted from the end where negative, as int32 (an axis is never longer)."""
    index = index.cast(dtypes.int32)
    return (index < 0).where(index + size, index)


def take(x: Tensor, axis: int, index: Tensor) -> Tensor:
    """x at `index` (any shape, in range) along `axis`: its shape replaces the axis."""
    rows = x.reshape(prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :]))
    flat = rows[:, index.reshape(-1)]
    return flat.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


def take_flat(x: Tensor, index: Tensor) -> Tensor:
    """Elements of x, seen as 1-D, at `index` (any shape, in range)."""
    return x.reshape(-1)[index.reshape(-1)].reshape(index.shape)


def stack(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors stacked along a new axis, in groups: a kernel can only take so many arguments."""
    parts = [tensor.unsqueeze(axis) for tensor in tensors]
    while len(parts) > 1:
        groups = [parts[n : n + _MAX_ARGUMENTS] for n in range(0, len(parts), _MAX_ARGUMENTS)]
        parts = [
            group[0].cat(*group[1:], dim=axis).contiguous() if len(group) > 1 else group[0]
            for group in groups
        ]
    return parts[0]
