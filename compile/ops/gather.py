"""Gathering, scattering and sorting.

Scattering is written as a gather: each output element looks up which update, if any, is its own,
so that no two work-items write one element and nothing is updated in place.
"""

from math import prod

import numpy as np
from tinygrad import Tensor, dtypes

from compile.ops.indexing import take, take_static, wrap
from compile.ops.registry import Array, Context, Op, Value


def gather(x: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """Slices of x along `axis` at `indices`, whose shape replaces the axis."""
    axis = axis % x.ndim
    return take(x, axis, wrap(indices, x.shape[axis]))


def gather_elements(x: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """For each element of `indices`, the element of x with that position along `axis`."""
    return x.gather(axis, wrap(indices, x.shape[axis]))


def _rows(indices: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Linear row numbers of index tuples (last axis of `indices`) into dimensions `dims`."""
    row = indices[..., 0].const_like(0).cast(dtypes.int32)
    for position, size in enumerate(dims):
        row = row * size + wrap(indices[..., position], size)
    return row


def gather_nd(x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """Slices of x at index tuples, within each batch."""
    batches = prod(x.shape[:batch_dims])
    depth = indices.shape[-1]
    dims, slice_shape = x.shape[batch_dims : batch_dims + depth], x.shape[batch_dims + depth :]
    row = _rows(indices, dims).reshape(batches, -1)
    row = row + (Tensor.arange(batches, dtype=dtypes.int32) * prod(dims)).reshape(batches, 1)
    table = x.reshape(batches * prod(dims), prod(slice_shape))
    return take(table, 0, row.reshape(-1)).reshape(*indices.shape[:-1], *slice_shape)


def scatter_last(x: Tensor, index: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """Scatter along the last axis: x (…, R), updates (…, J), index (…, J), -1 for no place.

    `index` may have leading dimensions of size 1. Of several updates for one place, the last one
    counts when there is no reduction.
    """
    places, count = x.shape[-1], index.shape[-1]
    hit = index.unsqueeze(-2) == Tensor.arange(places, dtype=dtypes.int32).reshape(places, 1)
    if reduction == "none":
        order = Tensor.arange(count, dtype=dtypes.int32)
        last = hit.where(order, -1).max(-1).expand(x.shape)
        picked = updates.gather(-1, last.maximum(0))
        return (last >= 0).where(picked, x)
    values = updates.unsqueeze(-2)
    if reduction == "add":
        return x + hit.where(values, 0).sum(-1).cast(x.dtype)
    if reduction == "mul":
        return x * hit.where(values, 1).prod(-1).cast(x.dtype)
    if reduction == "max":
        return x.maximum(hit.where(values, x.dtype.min).max(-1))
    if reduction == "min":
        return x.minimum(hit.where(values, x.dtype.max).min(-1))
    raise ValueError(f"reduction {reduction!r} is none of none, add, mul, max, min")


def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """x with `updates` put at `indices` along `axis`."""
    axis = axis % x.ndim
    index = wrap(indices, x.shape[axis])
    order = [d for d in range(x.ndim) if d != axis] + [axis]
    back = [order.index(d) for d in range(x.ndim)]
    margins = tuple(
        (0, 0) if d == axis else (0, x.shape[d] - indices.shape[d]) for d in range(x.ndim)
    )
    index, updates = index.pad(margins, value=-1), updates.pad(margins)
    result = scatter_last(x.permute(order), index.permute(order), updates.permute(order), reduction)
    return result.permute(back)


def scatter_nd(
    data: Value, indices: Value, updates: Value, reduction: str = "none", *, context: Context
) -> Tensor:
    """x with slices `updates` put at index tuples. Known indices become one selection."""
    x, index, changes = (context.tensor(value) for value in (data, indices, updates))
    depth = index.shape[-1]
    dims, width = x.shape[:depth], prod(x.shape[depth:])
    table, new = x.reshape(prod(dims), width), changes.reshape(-1, width)
    if isinstance(indices, np.ndarray) and reduction == "none":
        tuples = indices.reshape(-1, depth)
        return _replace_rows(context, table, tuples, dims, new).reshape(x.shape)
    row = _rows(index.reshape(-1, depth), dims)
    moved = scatter_last(table.permute(1, 0), row.reshape(1, -1), new.permute(1, 0), reduction)
    return moved.permute(1, 0).reshape(x.shape)


def _replace_rows(
    context: Context, table: Tensor, tuples: Array, dims: tuple[int, ...], new: Tensor
) -> Tensor:
    """Rows of `table` replaced by rows of `new`, at index tuples known at build time."""
    rows = np.ravel_multi_index(tuple(np.mod(tuples, dims).T), dims) if dims else np.zeros(1, int)
    source = np.arange(table.shape[0])
    source[rows] = table.shape[0] + np.arange(len(rows))
    return take_static(context, table.cat(new, dim=0), 0, source)


def tensor_scatter(
    cache: Tensor,
    update: Tensor,
    write_indices: Tensor | None = None,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    """A key/value cache with `update` written from each batch's index on, along `axis`."""
    axis = axis % cache.ndim
    size, count, batch = cache.shape[axis], update.shape[axis], cache.shape[0]
    first = Tensor.zeros(batch, dtype=dtypes.int32, buffer=False)
    if write_indices is not None:
        first = write_indices.cast(dtypes.int32)
    offset = Tensor.arange(size, dtype=dtypes.int32).reshape(1, size) - first.reshape(batch, 1)
    if mode == "circular":
        offset = offset % size
    elif mode != "linear":
        raise ValueError(f"mode {mode!r} is neither linear nor circular")
    shape = [batch if d == 0 else size if d == axis else 1 for d in range(cache.ndim)]
    offset = offset.reshape(shape).expand(cache.shape)
    written = (offset >= 0) & (offset < count)
    return written.where(update.gather(axis, offset.clip(0, count - 1)), cache)


def compress(x: Tensor, condition: Array, axis: int | None = None, *, context: Context) -> Tensor:
    """Slices of x (elements, without an axis) where the condition holds."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    kept = np.flatnonzero(condition.reshape(-1))
    return take_static(context, x, axis % x.ndim, kept)


def array_feature_extractor(x: Tensor, indices: Tensor) -> Tensor:
    """Elements of the last axis."""
    picked = take(x, x.ndim - 1, indices.reshape(-1).cast(dtypes.int32))
    return picked.reshape(1, -1) if x.ndim == 1 else picked


def one_hot(indices: Tensor, depth: Array, values: Tensor, axis: int = -1) -> Tensor:
    """values[1] at each index along a new axis of size `depth`, values[0] elsewhere."""
    size = int(depth.reshape(-1)[0])
    axis = axis % (indices.ndim + 1)
    index = indices.cast(dtypes.int64)
    index = (index < 0).where(index + size, index).unsqueeze(axis)
    shape = [size if d == axis else 1 for d in range(index.ndim)]
    hot = index == Tensor.arange(size, dtype=dtypes.int64).reshape(shape)
    return hot.where(values[1], values[0])


def reverse_sequence(
    x: Tensor, sequence_lens: Tensor, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """The first `sequence_lens[i]` steps of each batch reversed, the others as they are."""
    steps = x.shape[time_axis]
    time = Tensor.arange(steps, dtype=dtypes.int32).reshape(steps, 1)
    length = sequence_lens.cast(dtypes.int32).reshape(1, -1)
    source = (time < length).where(length - 1 - time, time)
    if batch_axis < time_axis:
        source = source.permute(1, 0)
    index = source.reshape(*source.shape, *(1,) * (x.ndim - 2)).expand(x.shape)
    return x.gather(time_axis, index)


def top_k(
    x: Tensor,
    k: Array,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,  # noqa: A002
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along an axis and their positions, in order."""
    count = int(k.reshape(-1)[0])
    if count == 0:
        none = x.shrink(tuple((0, 0) if d == axis % x.ndim else None for d in range(x.ndim)))
        return none, none.cast(dtypes.int64)
    values, positions = x.topk(count, axis, bool(largest), bool(sorted))
    return values, positions.cast(dtypes.int64)


def top_k_attribute(x: Tensor, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """TopK before opset 10."""
    return top_k(x, np.array(k), axis)


OPS = (
    Op("Gather", gather),
    Op("GatherElements", gather_elements),
    Op("GatherND", gather_nd),
    Op("Scatter", scatter_elements),
    Op("ScatterElements", scatter_elements),
    Op("ScatterND", scatter_nd, any_value=True, context=True),
    Op("TensorScatter", tensor_scatter),
    Op("Compress", compress, constants=(1,), context=True),
    Op("ArrayFeatureExtractor", array_feature_extractor, domain="ai.onnx.ml"),
    Op("OneHot", one_hot, constants=(1,)),
    Op("ReverseSequence", reverse_sequence),
    Op("TopK", top_k, since=10, constants=(1,)),
    Op("TopK", top_k_attribute),
)
