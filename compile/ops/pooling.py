"""Pooling over windows and over whole images."""

from collections.abc import Sequence
from functools import reduce
from math import prod

import numpy as np
from tinygrad import Tensor, dtypes

from compile.ops.gather import scatter_last
from compile.ops.registry import Array, Context, Op
from compile.ops.window import Windows, windows

IntList = Sequence[int] | None


def _window_axes(spatial: Windows) -> tuple[int, ...]:
    return tuple(range(-len(spatial.kernel), 0))


def _inside_counts(size: int, axis: int, spatial: Windows, include_pad: bool) -> Array:
    """For each window along an axis, how many of its positions count in an average."""
    before, after = spatial.before[axis], spatial.after[axis]
    starts = np.arange(spatial.count[axis]) * spatial.strides[axis] - before
    taps = np.arange(spatial.kernel[axis]) * spatial.dilations[axis]
    positions = starts[:, None] + taps[None, :]
    low, high = (-before, size + after) if include_pad else (0, size)
    counts: Array = ((positions >= low) & (positions < high)).sum(1)
    return counts


def average_pool(
    x: Tensor,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: IntList = None,
    pads: IntList = None,
    strides: IntList = None,
    *,
    context: Context,
) -> Tensor:
    """Mean of each window; padding counts as zeros or, by default, not at all."""
    spatial = windows(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    counts = reduce(
        np.multiply.outer,
        [_inside_counts(n, i, spatial, bool(count_include_pad)) for i, n in enumerate(x.shape[2:])],
    )
    total = spatial.over(x, 0).sum(_window_axes(spatial), dtype=_sum_dtype(x))
    factor = context.tensor((1.0 / np.maximum(counts, 1)).astype(np.float32))
    return (total * factor.cast(total.dtype)).cast(x.dtype)


def _sum_dtype(x: Tensor) -> object:
    return dtypes.float32 if x.dtype == dtypes.float16 else x.dtype


def max_pool(
    x: Tensor,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: IntList = None,
    pads: IntList = None,
    storage_order: int = 0,
    strides: IntList = None,
    *,
    context: Context,
) -> tuple[Tensor, ...]:
    """Maximum of each window and, where wanted, its position in the flattened whole input."""
    spatial = windows(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    cut = spatial.over(x, x.dtype.min)
    axes = _window_axes(spatial)
    top = cut.max(axes)
    if not any(context.outputs[1:]):
        return (top,)
    sizes = x.shape[2:]
    outside = prod(sizes)
    numbers = np.arange(outside, dtype=np.int32).reshape(sizes[::-1] if storage_order else sizes)
    numbers = numbers.T if storage_order else numbers
    places = spatial.over(context.tensor(numbers[None, None]), outside)
    first = (cut == cut.max(axes, keepdim=True)).where(places, outside).min(axes)
    image = np.arange(x.shape[0] * x.shape[1], dtype=np.int64) * outside
    offset = context.tensor(image.reshape(x.shape[0], x.shape[1], *(1,) * len(sizes)))
    return top, first.cast(dtypes.int64) + offset


def lp_pool(
    x: Tensor,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: IntList = None,
    p: int = 2,
    pads: IntList = None,
    strides: IntList = None,
) -> Tensor:
    """p-norm of each window."""
    spatial = windows(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return _norm(spatial.over(x, 0), _window_axes(spatial), p, keep=False)


def _norm(x: Tensor, axes: tuple[int, ...], p: int, keep: bool) -> Tensor:
    if p == 1:
        return x.abs().sum(axes, keepdim=keep)
    if p == 2:
        return x.square().sum(axes, keepdim=keep).sqrt()
    return x.abs().pow(p).sum(axes, keepdim=keep).pow(1 / p)


def _spatial(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


def global_average_pool(x: Tensor) -> Tensor:
    """Mean over the spatial axes."""
    return x.mean(_spatial(x), keepdim=True)


def global_max_pool(x: Tensor) -> Tensor:
    """Maximum over the spatial axes."""
    return x.max(_spatial(x), keepdim=True)


def global_lp_pool(x: Tensor, p: int = 2) -> Tensor:
    """p-norm over the spatial axes."""
    return _norm(x, _spatial(x), p, keep=True)


def max_unpool(
    x: Tensor,
    indices: Tensor,
    output_shape: Array | None = None,
    kernel_shape: Sequence[int] = (),
    pads: IntList = None,
    strides: IntList = None,
) -> Tensor:
    """Pooled maxima put back where they came from, zeros elsewhere.

    The indices count in the shape that the pooled input must have had; `output_shape` may be
    larger, and then zeros follow.
    """
    rank = len(kernel_shape)
    steps, margins = strides or (1,) * rank, pads or (0,) * 2 * rank
    inner = tuple(
        (x.shape[d + 2] - 1) * steps[d] - margins[d] - margins[rank + d] + kernel_shape[d]
        for d in range(rank)
    )
    size, images = prod(inner), x.shape[0] * x.shape[1]
    place = indices.reshape(images, -1) % size
    empty = Tensor.zeros(images, size, dtype=x.dtype, buffer=False)
    filled = scatter_last(empty, place.cast(dtypes.int32), x.reshape(images, -1), "none")
    y = filled.reshape(*x.shape[:2], *inner)
    if output_shape is None:
        return y
    wanted = [int(v) for v in output_shape.reshape(-1)]
    return y.pad(tuple((0, w - have) for w, have in zip(wanted, y.shape, strict=True)))


OPS = (
    Op("AveragePool", average_pool, context=True),
    Op("MaxPool", max_pool, context=True),
    Op("LpPool", lp_pool, since=2),
    Op("GlobalAveragePool", global_average_pool),
    Op("GlobalMaxPool", global_max_pool),
    Op("GlobalLpPool", global_lp_pool, since=2),
    Op("MaxUnpool", max_unpool, constants=(2,)),
)
