"""Reductions along axes, and running sums and products."""

from collections.abc import Callable, Sequence

import numpy as np
from tinygrad import Tensor, dtypes

from compile.ops.registry import Array, Op

Axes = tuple[int, ...]


def _widened(x: Tensor) -> Tensor:
    """float16 sums are taken in float32."""
    return x.cast(dtypes.float32) if x.dtype == dtypes.float16 else x


def _sum(x: Tensor, axes: Axes, keep: bool) -> Tensor:
    return _widened(x).sum(axes, keepdim=keep)


def _mean(x: Tensor, axes: Axes, keep: bool) -> Tensor:
    total = _sum(x, axes, keep)
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    return total.div(count, rounding_mode="trunc" if dtypes.is_int(x.dtype) else None)


def _log_sum_exp(x: Tensor, axes: Axes, keep: bool) -> Tensor:
    """Shifted by the maximum, so that the exponentials cannot overflow."""
    if 0 in x.shape:
        return _sum(x.exp(), axes, keep).log()
    x = _widened(x) if dtypes.is_float(x.dtype) else x.cast(dtypes.float32)
    top = x.max(axes, keepdim=True)
    shift = top.isfinite().where(top, 0)
    result = (x - shift).exp().sum(axes, keepdim=True).log() + shift
    return result if keep else result.sum(axes)


def _l2(x: Tensor, axes: Axes, keep: bool) -> Tensor:
    wide = _widened(x) if dtypes.is_float(x.dtype) else x.cast(dtypes.float64)
    return wide.square().sum(axes, keepdim=keep).sqrt()


def _max(x: Tensor, axes: Axes, keep: bool) -> Tensor:
    return x.max(axes, keepdim=keep)


def _min(x: Tensor, axes: Axes, keep: bool) -> Tensor:
    return x.min(axes, keepdim=keep)


_REDUCTIONS: tuple[tuple[str, Callable[[Tensor, Axes, bool], Tensor]], ...] = (
    ("ReduceSum", _sum),
    ("ReduceMean", _mean),
    ("ReduceMax", _max),
    ("ReduceMin", _min),
    ("ReduceProd", lambda x, axes, keep: x.prod(axes, keepdim=keep)),
    ("ReduceL1", lambda x, axes, keep: _sum(x.abs(), axes, keep)),
    ("ReduceL2", _l2),
    ("ReduceSumSquare", lambda x, axes, keep: _sum(_widened(x).square(), axes, keep)),
    ("ReduceLogSum", lambda x, axes, keep: _sum(x, axes, keep).log()),
    ("ReduceLogSumExp", _log_sum_exp),
)


def _reducer(reduce: Callable[[Tensor, Axes, bool], Tensor]) -> Callable[..., Tensor]:
    def reduced(
        x: Tensor,
        axes: Array | Sequence[int] | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Tensor:
        chosen = () if axes is None else tuple(int(a) % x.ndim for a in np.asarray(axes).flat)
        if not chosen and noop_with_empty_axes:
            # The elementwise part of the reduction still applies to each element alone.
            return reduce(x.unsqueeze(-1), (x.ndim,), False).cast(x.dtype)
        chosen = chosen or tuple(range(x.ndim))
        result = reduce(x, chosen, bool(keepdims)) if x.ndim else reduce(x.reshape(1), (0,), False)
        return result.cast(x.dtype)

    return reduced


def arg_max(x: Tensor, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Position of the first (or last) maximum along an axis."""
    return _arg_extreme(Tensor.argmax, x, axis, keepdims, select_last_index)


def arg_min(x: Tensor, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Position of the first (or last) minimum along an axis."""
    return _arg_extreme(Tensor.argmin, x, axis, keepdims, select_last_index)


def _arg_extreme(
    extreme: Callable[..., Tensor], x: Tensor, axis: int, keepdims: int, last: int
) -> Tensor:
    if not last:
        return extreme(x, axis, keepdim=bool(keepdims)).cast(dtypes.int64)
    position = extreme(x.flip(axis), axis, keepdim=bool(keepdims)).cast(dtypes.int64)
    return x.shape[axis] - 1 - position


def _running(
    run: Callable[[Tensor, int], Tensor], neutral: int
) -> Callable[[Tensor, Array, int, int], Tensor]:
    def scanned(x: Tensor, axis: Array, exclusive: int = 0, reverse: int = 0) -> Tensor:
        along = int(axis.reshape(-1)[0]) % x.ndim
        x = x.flip(along) if reverse else x
        if exclusive:
            margins = tuple((1, 0) if d == along else (0, 0) for d in range(x.ndim))
            kept = tuple((0, size) for size in x.shape)
            x = x.pad(margins, value=neutral).shrink(kept)
        total = run(x, along).cast(x.dtype)
        return total.flip(along) if reverse else total

    return scanned


OPS = (
    *(Op(name, _reducer(reduce), constants=(1,)) for name, reduce in _REDUCTIONS),
    Op("ArgMax", arg_max),
    Op("ArgMin", arg_min),
    Op("CumSum", _running(Tensor.cumsum, 0), constants=(1,)),
    Op("CumProd", _running(Tensor.cumprod, 1), constants=(1,)),
)
