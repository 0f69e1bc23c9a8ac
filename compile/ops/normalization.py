"""Normalisations, dropout (which does nothing at inference) and losses."""

from collections.abc import Sequence
from math import prod

import numpy as np
from tinygrad import Tensor, dtypes

from compile.ops.registry import MICROSOFT_DOMAIN, Array, Op, UnsupportedUseError


def _stash(x: Tensor) -> Tensor:
    """Statistics are taken in float32, or in float64 for a float64 input."""
    return x if x.dtype == dtypes.float64 else x.cast(dtypes.float32)


def _per_channel(value: Tensor, x: Tensor) -> Tensor:
    return value.reshape(1, -1, *(1,) * (x.ndim - 2)) if value.ndim == 1 else value.unsqueeze(0)


def batch_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
    is_test: int = 1,
) -> tuple[Tensor, ...]:
    """Per channel (axis 1). In training mode by the batch's statistics, also returning the
    running ones.
    """
    if not training_mode:
        factor = scale * (variance + epsilon).rsqrt()
        y = x * _per_channel(factor, x) + _per_channel(bias - mean * factor, x)
        return (y.cast(x.dtype),)
    axes = (0, *range(2, x.ndim))
    wide = _stash(x)
    batch_mean, batch_variance = wide.mean(axes), wide.var(axes, correction=0)
    y = (wide - _per_channel(batch_mean, x)) * _per_channel((batch_variance + epsilon).rsqrt(), x)
    y = y * _per_channel(scale, x) + _per_channel(bias, x)
    running_mean = mean * momentum + batch_mean * (1 - momentum)
    running_variance = variance * momentum + batch_variance * (1 - momentum)
    return y.cast(x.dtype), running_mean, running_variance


def _standardized(x: Tensor, axes: tuple[int, ...], epsilon: float) -> tuple[Tensor, ...]:
    wide = _stash(x)
    mean = wide.mean(axes, keepdim=True)
    centred = wide - mean
    inverse = (centred.square().mean(axes, keepdim=True) + epsilon).rsqrt()
    return centred * inverse, mean, inverse


def layer_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Tensor, ...]:
    """Over the axes from `axis` on; also the mean and the inverse standard deviation."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    y, mean, inverse = _standardized(x, axes, epsilon)
    y = y.cast(x.dtype) * scale
    return (y if bias is None else y + bias), mean, inverse


def rms_normalization(
    x: Tensor, scale: Tensor, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """x over the root of its mean square over the axes from `axis` on."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = _stash(x)
    y = wide * (wide.square().mean(axes, keepdim=True) + epsilon).rsqrt()
    return y.cast(x.dtype) * scale


def group_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    """Over groups of channels; scale and bias per channel."""
    grouped = x.reshape(x.shape[0], num_groups, -1)
    y = _standardized(grouped, (2,), epsilon)[0].cast(x.dtype).reshape(x.shape)
    return y * _per_channel(scale, x) + _per_channel(bias, x)


def group_normalization_18(
    x: Tensor, scale: Tensor, bias: Tensor, num_groups: int, epsilon: float = 1e-5
) -> Tensor:
    """Before opset 21 scale and bias are per group."""
    each = x.shape[1] // num_groups
    wide_scale, wide_bias = (value.repeat_interleave(each, 0) for value in (scale, bias))
    return group_normalization(x, wide_scale, wide_bias, num_groups, epsilon)


def instance_normalization(x: Tensor, scale: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Over the spatial axes of each channel."""
    return group_normalization(x, scale, bias, x.shape[1], epsilon)


def mean_variance_normalization(x: Tensor, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    """(x - mean) / standard deviation over `axes`."""
    where = tuple(axes)
    return (x - x.mean(where, keepdim=True)) / (x.std(where, keepdim=True, correction=0) + 1e-9)


def lp_normalization(x: Tensor, axis: int = -1, p: int = 2) -> Tensor:
    """x over its 1- or 2-norm along an axis; zero where the norm is zero."""
    size = x.abs()
    norm = size.sum(axis, keepdim=True)
    if p == 2:
        norm = size.square().sum(axis, keepdim=True).sqrt()
    elif p != 1:
        raise ValueError(f"p {p} is neither 1 nor 2")
    return (norm == 0).where(0, x / (norm == 0).where(1, norm))


def local_response_normalization(
    x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """x over (bias + alpha / size * sum of squares of `size` channels around) ** beta."""
    squares = x.square().reshape(x.shape[0], 1, x.shape[1], prod(x.shape[2:]))
    padded = squares.pad((None, None, ((size - 1) // 2, size // 2), None))
    total = padded._pool((size, 1)).sum((-1, -2)).reshape(x.shape)
    return x / (total * (alpha / size) + bias).pow(beta)


def skip_layer_normalization(
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    epsilon: float = 1e-12,
) -> tuple[Tensor | None, ...]:
    """Layer normalisation of x + skip (+ bias), and that sum."""
    total = x + skip if bias is None else x + skip + bias
    y, mean, inverse = layer_normalization(total, gamma, beta, epsilon=epsilon)
    return y, mean, inverse, total


def dropout(
    x: Tensor,
    ratio: Array | float | None = None,
    training_mode: Array | None = None,
    seed: int = 0,
    is_test: int = 1,
) -> tuple[Tensor, Array]:
    """x itself, and a mask of all ones. Dropping at random is training."""
    share = 0.5 if ratio is None else float(np.asarray(ratio))
    if training_mode is not None and bool(training_mode) and share:
        raise UnsupportedUseError(
            f"it drops {share} of its input at random; export the model for inference"
        )
    return x, np.ones(x.shape, np.bool_)


def negative_log_likelihood_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Weighted mean (or sum, or each) of -x at the target class."""
    return x.nll_loss(target, weight, ignore_index, reduction)


def softmax_cross_entropy_loss(
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[Tensor, Tensor]:
    """The loss of log-softmax over classes (axis 1), and the log-probabilities."""
    log_probability = scores.log_softmax(1)
    return log_probability.nll_loss(labels, weights, ignore_index, reduction), log_probability


OPS = (
    Op("BatchNormalization", batch_normalization),
    Op("LayerNormalization", layer_normalization),
    Op("RMSNormalization", rms_normalization),
    Op("GroupNormalization", group_normalization, since=21),
    Op("GroupNormalization", group_normalization_18),
    Op("InstanceNormalization", instance_normalization),
    Op("MeanVarianceNormalization", mean_variance_normalization),
    Op("LpNormalization", lp_normalization),
    Op("LRN", local_response_normalization),
    Op("SkipLayerNormalization", skip_layer_normalization, domain=MICROSOFT_DOMAIN),
    Op("Dropout", dropout, constants=(1, 2), foldable=False),
    Op("NegativeLogLikelihoodLoss", negative_log_likelihood_loss),
    Op("SoftmaxCrossEntropyLoss", softmax_cross_entropy_loss),
)
