"""Resize and its predecessor Upsample: along each axis, taps and weights known at build time.

Coordinates: the Resize operator page.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tinygrad import Tensor, dtypes

from compile.ops.indexing import take_static
from compile.ops.registry import Array, Context, Op


@dataclass(frozen=True)
class Options:
    """Attributes that steer every axis."""

    mode: str
    coordinates: str
    nearest: str
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


@dataclass(frozen=True)
class Axis:
    """One axis to resize: sizes, scale, and the region (start, end) of tf_crop_and_resize."""

    axis: int
    size: int
    out: int
    scale: float
    roi: tuple[float, float]

    def coordinates(self, mode: str) -> Array:
        """Position in the input of each output element, in float32 as ONNX Runtime has it: at
        the ties of nearest neighbours the last bit decides.
        """
        half, one = np.float32(0.5), np.float32(1)
        x = np.arange(self.out, dtype=np.float32)
        scale, size = np.float32(self.scale), np.float32(self.size)
        length = scale * size
        if mode == "half_pixel":
            return (x + half) / scale - half
        if mode == "pytorch_half_pixel":
            return (x + half) / scale - half if self.out > 1 else x * 0
        if mode == "asymmetric":
            return x / scale
        if mode == "align_corners":
            return x * (size - one) / (length - one) if length != one else x * 0
        if mode == "half_pixel_symmetric":
            shift = size * half * (one - np.float32(self.out) / length)
            return shift + (x + half) / scale - half
        if mode == "tf_crop_and_resize":
            start, end = (np.float32(bound) * (size - one) for bound in self.roi)
            if self.out == 1:
                return x * 0 + (start + end) * half
            return start + x * (end - start) / np.float32(self.out - 1)
        raise ValueError(f"coordinate_transformation_mode {mode!r} is not known")


# A tie that a coordinate misses by its own rounding is a tie, for ONNX Runtime too.
_TIE = 1e-5

_NEAREST: dict[str, Callable[[Array], Any]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5 - _TIE),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5 + _TIE),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _cubic(distance: Array, a: float) -> Array:
    """Keys' piecewise cubic kernel."""
    t = np.abs(distance)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    weights: Array = np.where(t <= 1, near, np.where(t < 2, far, 0.0))
    return weights


def _linear(distance: Array) -> Array:
    """Triangle kernel."""
    weights: Array = np.clip(1 - np.abs(distance), 0, 1)
    return weights


def taps(axis: Axis, options: Options) -> tuple[Array, Array]:
    """Input positions and weights, each (out, taps). Raises ValueError for an unknown mode."""
    position = axis.coordinates(options.coordinates)
    if options.mode == "nearest":
        if options.nearest not in _NEAREST:
            raise ValueError(f"nearest_mode {options.nearest!r} is not known")
        chosen = _NEAREST[options.nearest](position)
        return np.clip(chosen, 0, axis.size - 1).astype(int)[:, None], np.ones((axis.out, 1))
    reach = 2 if options.mode == "cubic" else 1
    stretch = min(axis.scale, 1.0) if options.antialias else 1.0
    first = int(np.floor(-reach / stretch)) + 1
    places = np.floor(position)[:, None] + np.arange(first, 2 - first)[None, :]
    distance = (places - position[:, None]) * stretch
    cubic = options.mode == "cubic"
    weights = _cubic(distance, options.cubic_a) if cubic else _linear(distance)
    outside = (places < 0) | (places >= axis.size)
    if options.exclude_outside:
        weights = np.where(outside, 0.0, weights)
    if options.exclude_outside or options.antialias:
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(places, 0, axis.size - 1).astype(int), weights


def _resize_axis(context: Context, x: Tensor, axis: Axis, options: Options) -> Tensor:
    places, weights = taps(axis, options)
    if options.mode == "nearest":
        return take_static(context, x, axis.axis, places[:, 0])
    shape = [axis.out if d == axis.axis else 1 for d in range(x.ndim)]
    total: Tensor | None = None
    for tap in range(places.shape[1]):
        if not weights[:, tap].any():
            continue
        factor = context.tensor(weights[:, tap].astype(np.float32)).reshape(shape)
        part = take_static(context, x, axis.axis, places[:, tap]) * factor
        total = part if total is None else total + part
    return total


def _extrapolated(context: Context, y: Tensor, axes: Sequence[Axis], value: float) -> Tensor:
    """`value` where a coordinate of tf_crop_and_resize lies outside of the input."""
    for axis in axes:
        position = axis.coordinates("tf_crop_and_resize")
        outside = (position < 0) | (position > axis.size - 1)
        shape = [axis.out if d == axis.axis else 1 for d in range(y.ndim)]
        if outside.any():
            y = context.tensor(outside).reshape(shape).where(value, y)
    return y


def _numbers(values: Array | Sequence[float] | None) -> list[float]:
    return [] if values is None else [float(v) for v in np.asarray(values).reshape(-1)]


def _output_sizes(
    sizes: Sequence[float], inputs: Sequence[int], policy: str
) -> tuple[list[float], list[int]]:
    """Scales and sizes for requested sizes, keeping the aspect ratio if asked to."""
    scales = [want / have for want, have in zip(sizes, inputs, strict=True)]
    if policy == "stretch":
        return scales, [int(size) for size in sizes]
    if policy not in ("not_larger", "not_smaller"):
        raise ValueError(f"keep_aspect_ratio_policy {policy!r} is not known")
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [scale] * len(inputs), [int(scale * have + 0.5) for have in inputs]


def changed_axes(
    shape: Sequence[int],
    scales: Array | None,
    sizes: Array | None = None,
    axes: Sequence[int] | None = None,
    policy: str = "stretch",
    roi: Array | None = None,
) -> list[Axis]:
    """The axes of a tensor of this shape that Resize scales or crops.

    Raises ValueError for an unknown policy or numbers that are not one for each axis.
    """
    where = [a % len(shape) for a in axes] if axes else list(range(len(shape)))
    inputs = [shape[a] for a in where]
    factors = _numbers(scales)
    if wanted := _numbers(sizes):
        factors, outputs = _output_sizes(wanted, inputs, policy)
    else:
        outputs = [int(factor * have) for factor, have in zip(factors, inputs, strict=True)]
    bounds = _numbers(roi)
    regions = list(zip(bounds[: len(where)], bounds[len(where) :], strict=True))
    regions = regions or [(0.0, 1.0)] * len(where)
    return [
        Axis(*each)
        for each in zip(where, inputs, outputs, factors, regions, strict=True)
        if each[1] != each[2] or each[3] != 1.0 or each[4] != (0.0, 1.0)
    ]


def resize(
    x: Tensor,
    roi: Array | None = None,
    scales: Array | None = None,
    sizes: Array | None = None,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    *,
    context: Context,
) -> Tensor:
    """x with axes scaled by `scales` or to `sizes`."""
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    changed = changed_axes(
        x.shape, scales, sizes, axes, keep_aspect_ratio_policy, roi if crops else None
    )
    options = Options(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        bool(antialias),
    )
    wide = x if mode == "nearest" else x.cast(dtypes.float32)
    for axis in changed:
        wide = _resize_axis(context, wide, axis, options)
    y = wide.cast(x.dtype)
    return _extrapolated(context, y, changed, extrapolation_value) if crops else y


def resize_10(x: Tensor, scales: Array, mode: str = "nearest", *, context: Context) -> Tensor:
    """Before opset 11: asymmetric, and nearest rounds down, or up when shrinking."""
    mode = "linear" if mode == "bilinear" else mode
    factors = np.asarray(scales).reshape(-1)
    for axis in range(x.ndim):
        each = np.ones_like(factors)
        each[axis] = factors[axis]
        x = resize(
            x,
            scales=each,
            mode=mode,
            coordinate_transformation_mode="asymmetric",
            nearest_mode="ceil" if factors[axis] < 1 else "floor",
            context=context,
        )
    return x


def upsample_7(
    x: Tensor, scales: Sequence[float], mode: str = "nearest", *, context: Context
) -> Tensor:
    """Upsample with its scales as an attribute."""
    return resize_10(x, np.asarray(scales), mode, context=context)


OPS = (
    Op("Resize", resize, since=11, constants=(1, 2, 3), context=True),
    Op("Resize", resize_10, since=10, constants=(1,), context=True),
    Op("Upsample", resize_10, since=9, constants=(1,), context=True),
    Op("Upsample", upsample_7, since=7, context=True),
)
