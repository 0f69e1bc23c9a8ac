"""Sampling images at computed positions: GridSample, RoiAlign, DeformConv, AffineGrid.

Positions are in pixels, one tensor per spatial axis, each (N, P); images are (N, C, *spatial).
"""

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

import numpy as np
from tinygrad import Tensor, dtypes

from compile.ops.indexing import take_flat
from compile.ops.registry import Array, Context, Op, UnsupportedUseError, Value
from compile.ops.window import windows

# Position in, position in the image and whether it counts out.
Border = Callable[[Tensor, int], tuple[Tensor, Tensor | None]]

_CUBIC = -0.75  # Keys' convolution parameter, fixed by the GridSample page


def pixels(x: Tensor, index: Tensor) -> Tensor:
    """x (N, C, *spatial) at linear positions index (N, P): (N, C, P)."""
    images = x.shape[0] * x.shape[1]
    first = Tensor.arange(images, dtype=dtypes.int32) * prod(x.shape[2:])
    place = index.unsqueeze(1) + first.reshape(x.shape[0], x.shape[1], 1)
    return take_flat(x, place)


def _zeros(position: Tensor, size: int) -> tuple[Tensor, Tensor]:
    return position.clip(0, size - 1), (position >= 0) & (position < size)


def _border(position: Tensor, size: int) -> tuple[Tensor, None]:
    return position.clip(0, size - 1), None


def _mirrored(position: Tensor, low: float, high: float) -> Tensor:
    """position reflected at low and high until it lies between."""
    span = high - low
    if span <= 0:
        return position * 0 + low
    wave = (position - low).abs()
    wave = wave - (wave / (2 * span)).floor() * (2 * span)
    return (wave > span).where(2 * span - wave, wave) + low


def _weighted(
    x: Tensor,
    places: Sequence[Sequence[Tensor]],
    weights: Sequence[Sequence[Tensor]],
    border: Border,
) -> Tensor:
    """Sum over all combinations of taps; places and weights per axis and tap, each (N, P)."""
    sizes = x.shape[2:]
    kept = [
        [border(place, size) for place in axis] for axis, size in zip(places, sizes, strict=True)
    ]
    total: Tensor | None = None
    for taps in product(*(range(len(axis)) for axis in places)):
        index, weight = None, None
        for axis, tap in enumerate(taps):
            position, counts = kept[axis][tap]
            position = position.cast(dtypes.int32)
            index = position if index is None else index * sizes[axis] + position
            share = weights[axis][tap]
            share = share if counts is None else counts.where(share, 0)
            weight = share if weight is None else weight * share
        value = pixels(x, index) * weight.unsqueeze(1)  # type: ignore[union-attr]
        total = value if total is None else total + value
    return total


def _cubic_weights(ratio: Tensor) -> list[Tensor]:
    a = _CUBIC

    def near(t: Tensor) -> Tensor:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    def far(t: Tensor) -> Tensor:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    return [far(ratio + 1), near(ratio), near(1 - ratio), far(2 - ratio)]


def _interpolated(x: Tensor, positions: Sequence[Tensor], mode: str, border: Border) -> Tensor:
    floors = [position.floor() for position in positions]
    ratios = [position - floor for position, floor in zip(positions, floors, strict=True)]
    if mode == "linear":
        places = [[floor, floor + 1] for floor in floors]
        weights = [[1 - ratio, ratio] for ratio in ratios]
    else:
        places = [[floor + tap for tap in (-1, 0, 1, 2)] for floor in floors]
        weights = [_cubic_weights(ratio) for ratio in ratios]
    return _weighted(x, places, weights, border)


# The names of opset 16 and of opset 20.
_MODES = {
    "bilinear": "linear",
    "bicubic": "cubic",
    "linear": "linear",
    "cubic": "cubic",
    "nearest": "nearest",
}


def grid_sample(
    x: Tensor,
    grid: Tensor,
    mode: str = "linear",
    padding_mode: str = "zeros",
    align_corners: int = 0,
) -> Tensor:
    """x (N, C, *spatial) at grid (N, *out, D), whose last axis is (x, y, …) in [-1, 1]."""
    batch, sizes = x.shape[0], x.shape[2:]
    flat = grid.reshape(batch, -1, len(sizes)).cast(dtypes.float32)
    edges = [(0.0, n - 1.0) if align_corners else (-0.5, n - 0.5) for n in sizes]

    def reflection(position: Tensor, size: int) -> tuple[Tensor, None]:
        low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        return _mirrored(position, low, high).clip(0, size - 1), None

    borders: dict[str, Border] = {"zeros": _zeros, "border": _border, "reflection": reflection}
    if padding_mode not in borders:
        raise ValueError(f"padding_mode {padding_mode!r} is none of {', '.join(borders)}")
    kind = _MODES[mode]
    positions = []
    for axis, (size, (low, high)) in enumerate(zip(sizes, edges, strict=True)):
        unit = flat[:, :, len(sizes) - 1 - axis]
        scale = (size - 1) / 2 if align_corners else size / 2
        position = (unit + 1) * scale - (0 if align_corners else 0.5)
        position = position.round() if kind == "nearest" else position
        if padding_mode == "border" and kind != "cubic":
            position = position.clip(0, size - 1)
        elif padding_mode == "reflection":
            position = _mirrored(position, low, high)
        positions.append(position)
    border = borders[padding_mode]
    if kind == "nearest":
        ones = [[position.const_like(1.0)] for position in positions]
        y = _weighted(x, [[position] for position in positions], ones, border)
    else:
        y = _interpolated(x, positions, kind, border)
    return y.reshape(batch, x.shape[1], *grid.shape[1:-1]).cast(x.dtype)


def _bins(start: Tensor, size: Tensor, bins: int, samples: int, context: Context) -> Tensor:
    """Sample positions (R, bins * samples) of regions along one axis."""
    steps = (np.arange(bins * samples) + 0.5) / samples
    return start + context.tensor(steps.astype(np.float32).reshape(1, -1)) * (size / bins)


def roi_align(
    x: Value,
    rois: Value,
    batch_indices: Value,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    *,
    context: Context,
) -> Tensor:
    """Regions (R, 4: x1 y1 x2 y2) of images, pooled to (R, C, output_height, output_width)."""
    image, regions = context.tensor(x), context.tensor(rois)
    shift = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    corners = regions.cast(dtypes.float32) * spatial_scale - shift
    outputs = (output_height, output_width)
    samples: tuple[int, ...] = (sampling_ratio,) * 2
    if sampling_ratio <= 0:
        samples = _adaptive_samples(rois, spatial_scale, shift, outputs)
    positions = []
    for axis, (bins, count) in enumerate(zip(outputs, samples, strict=True)):
        start, end = corners[:, 1 - axis : 2 - axis], corners[:, 3 - axis : 4 - axis]
        size = end - start if shift else (end - start).maximum(1.0)
        positions.append(_bins(start, size, bins, count, context))
    return _pooled_regions(image, context.tensor(batch_indices), positions, outputs, samples, mode)


def roi_align_10(
    x: Value,
    rois: Value,
    batch_indices: Value,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    *,
    context: Context,
) -> Tensor:
    """RoiAlign before opset 16, when coordinates were not shifted by half a pixel."""
    return roi_align(
        x,
        rois,
        batch_indices,
        "output_half_pixel",
        mode,
        output_height,
        output_width,
        sampling_ratio,
        spatial_scale,
        context=context,
    )


def _adaptive_samples(
    rois: Value, scale: float, shift: float, outputs: tuple[int, int]
) -> tuple[int, ...]:
    if not isinstance(rois, np.ndarray):
        raise UnsupportedUseError(
            "sampling_ratio 0 makes the amount of work depend on the regions; set sampling_ratio"
        )
    sizes = (rois[:, [3, 2]] - rois[:, [1, 0]]) * scale
    counts = np.ceil((sizes if shift else np.maximum(sizes, 1.0)) / np.array(outputs)).astype(int)
    if (counts != counts[:1]).any():
        raise UnsupportedUseError(
            "sampling_ratio 0 with regions of different sizes is not supported; set sampling_ratio"
        )
    return tuple(int(count) for count in counts[0])


def _pooled_regions(
    image: Tensor,
    batch: Tensor,
    positions: Sequence[Tensor],
    outputs: tuple[int, int],
    samples: Sequence[int],
    mode: str,
) -> Tensor:
    regions, channels, sizes = positions[0].shape[0], image.shape[1], image.shape[2:]
    rows, columns = positions[0].shape[1], positions[1].shape[1]
    shape = (regions, rows, columns)
    spread = [positions[0].unsqueeze(2).expand(shape), positions[1].unsqueeze(1).expand(shape)]
    inside = None
    lows, highs, ratios = [], [], []
    for position, size in zip(spread, sizes, strict=True):
        here = (position >= -1.0) & (position <= size)
        inside = here if inside is None else inside & here
        position = position.clip(0, size - 1)
        low = position.floor()
        lows.append(low.cast(dtypes.int32))
        highs.append((low + 1).minimum(size - 1).cast(dtypes.int32))
        ratios.append(position - low)
    values = []
    base = batch.cast(dtypes.int32).reshape(-1, 1, 1) * channels
    channel = Tensor.arange(channels, dtype=dtypes.int32).reshape(1, -1, 1, 1)
    for top, left in product((True, False), repeat=2):
        index = (lows[0] if top else highs[0]) * sizes[1] + (lows[1] if left else highs[1])
        weight = (1 - ratios[0] if top else ratios[0]) * (1 - ratios[1] if left else ratios[1])
        # In memory: these are the same for every channel.
        index, share = index.contiguous(), inside.where(weight, 0).contiguous()  # type: ignore[union-attr]
        place = (base.unsqueeze(1) + channel) * prod(sizes) + index.unsqueeze(1)
        share = share.unsqueeze(1)
        values.append(take_flat(image, place) * share)
    split = (regions, channels, outputs[0], samples[0], outputs[1], samples[1])
    if mode == "avg":
        mean = sum(values[1:], values[0])
        return mean.contiguous().reshape(split).mean((3, 5)).cast(image.dtype)
    # As the standard's own implementation has it: the largest weighted corner, not the largest
    # interpolated sample.
    largest = values[0].maximum(values[1]).maximum(values[2]).maximum(values[3])
    return largest.contiguous().reshape(split).max((3, 5)).cast(image.dtype)


def deform_conv(
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    offset_group: int = 1,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    *,
    context: Context,
) -> Tensor:
    """2-D convolution whose taps are moved by `offset` (y, x) and weighted by `mask`."""
    batch, channels, *sizes = x.shape
    spatial = windows(tuple(sizes), w.shape[2:], strides, dilations, pads)
    taps, out = prod(spatial.kernel), spatial.count
    moved = offset.reshape(batch * offset_group, *spatial.kernel, 2, *out)
    positions = []
    for axis in range(2):
        grid = _tap_grid(spatial.kernel, spatial.dilations, out, spatial.strides, axis)
        grid = grid - spatial.before[axis]
        place = context.tensor(grid.astype(np.float32)) + moved[:, :, :, axis]
        positions.append(place.reshape(batch * offset_group, -1))
    grouped = x.reshape(batch * offset_group, channels // offset_group, *sizes)
    samples = _interpolated(grouped, positions, "linear", _zeros)
    samples = samples.reshape(batch, offset_group, channels // offset_group, taps, prod(out))
    if mask is not None:
        samples = samples * mask.reshape(batch, offset_group, 1, taps, prod(out))
    columns = samples.reshape(batch, group, channels // group * taps, prod(out))
    kernels = w.reshape(1, group, w.shape[0] // group, -1)
    y = (kernels @ columns).reshape(batch, w.shape[0], *out).cast(x.dtype)
    return y if b is None else y + b.reshape(1, -1, 1, 1)


def _tap_grid(
    kernel: Sequence[int],
    dilations: Sequence[int],
    out: Sequence[int],
    strides: Sequence[int],
    axis: int,
) -> Array:
    """Positions along `axis`, shaped (*kernel, *out)."""
    taps = np.arange(kernel[axis]) * dilations[axis]
    starts = np.arange(out[axis]) * strides[axis]
    tap_shape = [kernel[d] if d == axis else 1 for d in range(2)]
    out_shape = [out[d] if d == axis else 1 for d in range(2)]
    grid = taps.reshape(*tap_shape, 1, 1) + starts.reshape(1, 1, *out_shape)
    return np.broadcast_to(grid, (*kernel, *out))


def affine_grid(theta: Tensor, size: Array, align_corners: int = 0, *, context: Context) -> Tensor:
    """Sampling grid (N, *spatial, D) of affine maps theta (N, D, D + 1), for GridSample."""
    spatial = [int(n) for n in size.reshape(-1)[2:]]
    steps = []
    for n in spatial:
        unit = np.arange(n) / max(n - 1, 1) if align_corners else (np.arange(n) + 0.5) / n
        steps.append(unit * 2 - 1)
    axes = np.meshgrid(*steps, indexing="ij")[::-1]
    points = np.stack([*axes, np.ones(spatial)], axis=-1).reshape(-1, len(spatial) + 1)
    grid = context.tensor(points.astype(np.float32)).cast(theta.dtype) @ theta.transpose(1, 2)
    return grid.reshape(theta.shape[0], *spatial, len(spatial))


OPS = (
    Op("GridSample", grid_sample),
    Op("RoiAlign", roi_align, since=16, any_value=True, context=True),
    Op("RoiAlign", roi_align_10, since=10, any_value=True, context=True),
    Op("DeformConv", deform_conv, context=True),
    Op("AffineGrid", affine_grid, constants=(1,), context=True),
)
