"""Operators that move elements without computing on them."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from tinygrad import Tensor

from compile.ops.indexing import take_static
from compile.ops.registry import Array, Context, Op


def _ints(values: Array | Sequence[int]) -> list[int]:
    return [int(v) for v in np.asarray(values).reshape(-1)]


def reshape(x: Tensor, shape: Array | Sequence[int], allowzero: int = 0) -> Tensor:
    """x in another shape; 0 copies the input's dimension unless `allowzero`, -1 is the rest."""
    dims = _ints(shape)
    return x.reshape([d if d or allowzero else x.shape[i] for i, d in enumerate(dims)])


def flatten(x: Tensor, axis: int = 1) -> Tensor:
    """2-D, split before `axis`."""
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))


def expand(x: Tensor, shape: Array) -> Tensor:
    """x broadcast together with `shape`."""
    return x.expand(np.broadcast_shapes(x.shape, tuple(_ints(shape))))


def transpose(x: Tensor, perm: Sequence[int] | None = None) -> Tensor:
    """Axes reordered; reversed by default."""
    return x.permute(tuple(perm) if perm is not None else tuple(range(x.ndim))[::-1])


def squeeze(x: Tensor, axes: Array | Sequence[int] | None = None) -> Tensor:
    """Without the axes of size 1, all or those given."""
    if axes is None:
        return x.squeeze()
    dropped = {a % x.ndim for a in _ints(axes)}
    wrong = [a for a in dropped if x.shape[a] != 1]
    if wrong:
        raise ValueError(f"axes {wrong} of shape {x.shape} are not of size 1")
    return x.reshape([d for i, d in enumerate(x.shape) if i not in dropped])


def unsqueeze(x: Tensor, axes: Array | Sequence[int]) -> Tensor:
    """With axes of size 1 inserted at these positions of the result."""
    rank = x.ndim + len(_ints(axes))
    inserted = {a % rank for a in _ints(axes)}
    dims = iter(x.shape)
    return x.reshape([1 if i in inserted else next(dims) for i in range(rank)])


def tile(x: Tensor, repeats: Array) -> Tensor:
    """x repeated along each axis."""
    return x.repeat(_ints(repeats))


def concat(*xs: Tensor, axis: int = 1) -> Tensor:
    """The inputs joined along an axis; those without elements add nothing."""
    axis = axis % xs[0].ndim
    filled = [x for x in xs if x.shape[axis]]
    if not filled:
        return xs[0]
    return filled[0].cat(*filled[1:], dim=axis) if len(filled) > 1 else filled[0]


def slice_(
    x: Tensor,
    starts: Array | Sequence[int],
    ends: Array | Sequence[int],
    axes: Array | Sequence[int] | None = None,
    steps: Array | None = None,
) -> Tensor:
    """Python's slices along the axes given; bounds are clamped to the dimensions."""
    firsts, lasts = _ints(starts), _ints(ends)
    where = range(len(firsts)) if axes is None else _ints(axes)
    strides = [1] * len(firsts) if steps is None else _ints(steps)
    picks = [slice(None)] * x.ndim
    for axis, *bounds in zip(where, firsts, lasts, strides, strict=True):
        picks[axis] = slice(*bounds)
    return x[tuple(picks)]


def slice_attributes(
    x: Tensor, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None
) -> Tensor:
    """Slice before opset 10."""
    return slice_(x, starts, ends, axes)


def split(
    x: Tensor,
    split: Array | Sequence[int] | None = None,
    axis: int = 0,
    num_outputs: int | None = None,
    *,
    context: Context,
) -> tuple[Tensor, ...]:
    """Pieces of the sizes given, or as many equal ones as there are outputs (last one smaller)."""
    size = x.shape[axis]
    if split is not None:
        return tuple(x.split(_ints(split), axis))
    count = num_outputs or len(context.outputs)
    chunk = -(-size // count)
    sizes = [min(chunk, size - i * chunk) for i in range(count)]
    if min(sizes) < 0:
        raise ValueError(f"axis {axis} of size {size} cannot be split into {count} outputs")
    return tuple(x.split(sizes, axis))


_PAD_MODES = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def pad(
    x: Tensor,
    pads: Array | Sequence[int],
    constant_value: Tensor | float | None = None,
    axes: Array | None = None,
    mode: str = "constant",
    *,
    context: Context,
) -> Tensor:
    """x with elements added (or, for negative pads, removed) before and after each axis."""
    where = list(range(x.ndim)) if axes is None else [a % x.ndim for a in _ints(axes)]
    amounts = _ints(pads)
    margins = [(0, 0)] * x.ndim
    for i, axis in enumerate(where):
        margins[axis] = (amounts[i], amounts[i + len(where)])
    x = x.shrink(
        tuple((max(-b, 0), d - max(-a, 0)) for d, (b, a) in zip(x.shape, margins, strict=True))
    )
    added = [(max(b, 0), max(a, 0)) for b, a in margins]
    if mode == "constant":
        return _pad_constant(x, added, constant_value)
    if mode not in _PAD_MODES:
        raise ValueError(f"mode {mode!r} is none of constant, reflect, edge, wrap")
    for axis, margin in enumerate(added):
        if margin != (0, 0):
            positions = np.pad(np.arange(x.shape[axis]), margin, mode=_PAD_MODES[mode])  # type: ignore[call-overload]
            x = take_static(context, x, axis, positions)
    return x


def _pad_constant(
    x: Tensor, margins: list[tuple[int, int]], value: Tensor | float | None
) -> Tensor:
    if not isinstance(value, Tensor):
        return x.pad(tuple(margins), value=value or 0)
    inside = Tensor.full(x.shape, True, buffer=False).pad(tuple(margins), value=False)
    return inside.where(x.pad(tuple(margins)), value.reshape(()))


def pad_attributes(
    x: Tensor,
    pads: Sequence[int],
    mode: str = "constant",
    value: float = 0.0,
    *,
    context: Context,
) -> Tensor:
    """Pad before opset 11."""
    return pad(x, pads, value, mode=mode, context=context)


def center_crop_pad(x: Tensor, shape: Array, axes: Sequence[int] | None = None) -> Tensor:
    """Centre part, or zeros around, so that the axes get the sizes of `shape`."""
    where = range(x.ndim) if axes is None else [a % x.ndim for a in axes]
    for axis, size in zip(where, _ints(shape), strict=True):
        surplus = x.shape[axis] - size
        margin: list[Any] = [None] * x.ndim
        if surplus > 0:
            margin[axis] = (surplus // 2, surplus // 2 + size)
            x = x.shrink(tuple(margin))
        elif surplus < 0:
            margin[axis] = (-surplus // 2, -surplus - -surplus // 2)
            x = x.pad(tuple(margin))
    return x


_BLOCK_FORMS = {
    "DCR": "b (h1 w1 c) h w -> b c (h h1) (w w1)",
    "CRD": "b (c h1 w1) h w -> b c (h h1) (w w1)",
}


def depth_to_space(x: Tensor, blocksize: int, mode: str = "DCR") -> Tensor:
    """Channels to blocks of pixels."""
    return x.rearrange(_BLOCK_FORMS[mode], h1=blocksize, w1=blocksize)


def space_to_depth(x: Tensor, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of pixels to channels."""
    forms = _BLOCK_FORMS[mode].split(" -> ")
    return x.rearrange(" -> ".join(reversed(forms)), h1=blocksize, w1=blocksize)


def trilu(x: Tensor, k: Array | None = None, upper: int = 1) -> Tensor:
    """Upper or lower triangle from diagonal k on, zero elsewhere."""
    diagonal = 0 if k is None else int(k.reshape(-1)[0])
    return x.triu(diagonal) if upper else x.tril(diagonal)


OPS = (
    Op("Reshape", reshape, since=5, constants=(1,)),
    Op("Flatten", flatten),
    Op("Expand", expand, constants=(1,)),
    Op("Transpose", transpose),
    Op("Squeeze", squeeze, constants=(1,)),
    Op("Unsqueeze", unsqueeze, constants=(1,)),
    Op("Tile", tile, since=6, constants=(1,)),
    Op("Concat", concat),
    Op("Slice", slice_, since=10, constants=(1, 2, 3, 4)),
    Op("Slice", slice_attributes),
    Op("Split", split, since=2, constants=(1,), context=True),
    Op("Pad", pad, since=11, constants=(1, 3), context=True),
    Op("Pad", pad_attributes, since=2, context=True),
    Op("CenterCropPad", center_crop_pad, constants=(1,)),
    Op("DepthToSpace", depth_to_space),
    Op("SpaceToDepth", space_to_depth),
    Op("Trilu", trilu, constants=(1,)),
)
