"""Softmax and its kin, whose meaning changed with opset 13."""

from collections.abc import Callable
from math import prod

from tinygrad import Tensor

from compile.ops.registry import Op


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Softmax over one axis."""
    return x.softmax(axis)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Logarithm of softmax over one axis."""
    return x.log_softmax(axis)


def hardmax(x: Tensor, axis: int = -1) -> Tensor:
    """One at the first maximum along the axis, zero elsewhere."""
    axis = axis % x.ndim
    hot = x.argmax(axis).unsqueeze(axis)._one_hot_along_dim(x.shape[axis], dim=axis)
    return hot.cast(x.dtype)


def _coerced(run: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """Before opset 13 the input is seen as 2-D, split at `axis`, default 1."""

    def coerced(x: Tensor, axis: int = 1) -> Tensor:
        rows = prod(x.shape[: axis % x.ndim if x.ndim else 0])
        return run(x.reshape(rows, -1), 1).reshape(x.shape)

    return coerced


OPS = (
    *(
        Op(name, run, since=13)
        for name, run in (("Softmax", softmax), ("LogSoftmax", log_softmax), ("Hardmax", hardmax))
    ),
    *(
        Op(name, _coerced(run))
        for name, run in (("Softmax", softmax), ("LogSoftmax", log_softmax), ("Hardmax", hardmax))
    ),
)
