"""Redrawing a clip's picture as another camera at the same place would have taken it.

Both cameras look the same way, so a ray's pixel in the clip is
`distort(K_clip · K_camera⁻¹ · pixel)`; the mounting angles stay untouched and are published as
calibration. What the clip's lens did not see is filled with its nearest border pixel.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from modeld.calibration import Intrinsics
from modeld.cameras.frame import FrameLayout
from modeld.errors import ModeldError
from modeld.replay.sidecar import Sidecar
from modeld.replay.video import Picture

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

# Bilinear weights in 1/16 of a pixel: 255 * 16 * 16 and the rounding half just fit 16 bits.
_STEPS = 16


def clip_pixels(sidecar: Sidecar, camera: Intrinsics, pixels: Floats) -> Floats:
    """Where pixels (…, 2) (x, y) of `camera` lie in the clip, (…, 2), lens included.

    Distortion is the Brown-Conrady model with k1, k2, p1, p2, k3 in OpenCV's order.
    """
    homogeneous = np.concatenate([pixels, np.ones((*pixels.shape[:-1], 1))], -1)
    rays = homogeneous @ np.linalg.inv(camera.matrix).T
    x, y = rays[..., 0], rays[..., 1]
    k1, k2, p1, p2, k3 = sidecar.distortion
    r2 = x * x + y * y
    radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
    bent_x = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
    bent_y = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    bent: Floats = np.stack([bent_x, bent_y, np.ones_like(x)], -1) @ sidecar.camera.matrix.T
    return bent[..., :2]


def seen_part(sidecar: Sidecar, camera: Intrinsics) -> tuple[int, int, int, int]:
    """The part of `camera`'s frame that the clip fills: left, top, right, bottom in pixels.

    The middle row and column decide; a bent border may leave a few pixels beyond it.
    """
    middle_x, middle_y = camera.width // 2, camera.height // 2
    row = np.stack([np.arange(camera.width), np.full(camera.width, middle_y)], -1)
    column = np.stack([np.full(camera.height, middle_x), np.arange(camera.height)], -1)
    x = clip_pixels(sidecar, camera, row.astype(np.float64))[:, 0]
    y = clip_pixels(sidecar, camera, column.astype(np.float64))[:, 1]
    columns = np.flatnonzero((x >= 0) & (x <= sidecar.camera.width - 1))
    rows = np.flatnonzero((y >= 0) & (y <= sidecar.camera.height - 1))
    if not len(columns) or not len(rows):
        raise ModeldError(
            f"the clip's camera and {camera.width}x{camera.height} see no common part; "
            "correct focal_length and center in the sidecar"
        )
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def scaled_pixels(size: tuple[int, int], camera: Intrinsics, pixels: Floats) -> Floats:
    """Where pixels (…, 2) of `camera` lie in a picture of its whole frame that is `size` big."""
    return pixels * (size[0] / camera.width, size[1] / camera.height)


_EVEN = " (pictures are read with even sides: an odd last row or column is left off)"


class Resampler:
    """Redraws pictures of one size into NV12 buffers of a camera's geometry."""

    def __init__(
        self, size: tuple[int, int], layout: FrameLayout, places_of: Callable[[Floats], Floats]
    ) -> None:
        """`places_of` tells where frame pixels (…, 2) are in pictures of `size`."""
        self._size = size
        self._layout = layout
        rows, columns = np.mgrid[0 : layout.height, 0 : layout.width].astype(np.float64)
        places = places_of(np.stack([columns, rows], -1))
        self._luma = plane_reader(places, *size)
        # A chroma sample belongs to the upper left luma pixel of its four, as in the warp.
        self._chroma = plane_reader(places[::2, ::2] / 2, size[0] // 2, size[1] // 2)

    def __call__(self, picture: Picture, data: Bytes) -> Bytes:
        """Write the picture as NV12 into `data`, `layout.bytes` long, and return that.

        Raises ModeldError when it has another size than promised.
        """
        if picture.size != self._size:
            raise ModeldError(
                f"picture is {picture.size[0]}x{picture.size[1]}, expected "
                f"{self._size[0]}x{self._size[1]}; correct the sidecar's size, focal_length and "
                "center, or take out the pictures of another size"
                + _EVEN
                * any(side % 2 for side in self._size)
            )
        luma, chroma = nv12_views(data, self._layout)
        luma[:] = self._luma(picture.luma)
        for channel in range(2):
            chroma[..., channel] = self._chroma(picture.chroma[..., channel])
        return data


def sidecar_resampler(sidecar: Sidecar, camera: Intrinsics, layout: FrameLayout) -> Resampler:
    """Redraws the clip that `sidecar` describes as `camera` would have seen it."""
    size = (sidecar.camera.width, sidecar.camera.height)
    return Resampler(size, layout, lambda pixels: clip_pixels(sidecar, camera, pixels))


def nv12_views(data: Bytes, layout: FrameLayout) -> tuple[Bytes, Bytes]:
    """Views of an NV12 buffer: luma (height, width) and chroma (height / 2, width / 2, 2)."""
    luma = data[: layout.stride * layout.height].reshape(layout.height, layout.stride)
    chroma = data[layout.uv_offset : layout.bytes].reshape(layout.height // 2, layout.stride)
    pairs = chroma[:, : layout.width].reshape(layout.height // 2, layout.width // 2, 2)
    return luma[:, : layout.width], pairs


def plane_reader(places: Floats, width: int, height: int) -> "Bilinear | Separable":
    """What reads a plane at these places; an undistorted lens bends no row and no column."""
    straight = (places[..., 0] == places[:1, :, 0]).all() and (
        places[..., 1] == places[:, :1, 1]
    ).all()
    return (Separable if straight else Bilinear)(places, width, height)


def _steps(places: Floats, count: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.uint16]]:
    """The sample before each place, and the weight of the one after it in 1/16."""
    inside = np.clip(places, 0, count - 1)
    before = np.minimum(inside.astype(np.intp), count - 2)
    return before, np.rint((inside - before) * _STEPS).astype(np.uint16)


class Bilinear:
    """Bilinear reading of one plane at fixed places; places outside read the nearest border."""

    def __init__(self, places: Floats, width: int, height: int) -> None:
        self._shape = places.shape[:2]
        left, across = _steps(places[..., 0].ravel(), width)
        top, down = _steps(places[..., 1].ravel(), height)
        first = top * width + left
        steps = np.uint16(_STEPS)
        taps = (
            (first, (steps - across) * (steps - down)),
            (first + 1, across * (steps - down)),
            (first + width, (steps - across) * down),
            (first + width + 1, across * down),
        )
        # A camera of the clip's own geometry reads single pixels.
        self._taps = [(index, weight) for index, weight in taps if weight.any()]

    def __call__(self, plane: Bytes) -> npt.NDArray[np.uint16]:
        """The values read, 0 to 255."""
        source = plane.astype(np.uint16).ravel()
        total = np.full(self._taps[0][0].shape, _STEPS * _STEPS // 2, np.uint16)
        tap = np.empty_like(total)
        for index, weight in self._taps:
            # mode="clip" skips the bounds check's copy; the indices are in bounds by construction.
            source.take(index, out=tap, mode="clip")
            tap *= weight
            total += tap
        total >>= 8
        return total.reshape(self._shape)


class Separable:
    """The same numbers for places in straight rows and columns, one direction after the other."""

    def __init__(self, places: Floats, width: int, height: int) -> None:
        self._left, self._across = _steps(places[0, :, 0], width)
        top, down = _steps(places[:, 0, 1], height)
        # Only these rows are looked at.
        self._rows = slice(int(top.min()), int(top.max()) + 2)
        self._top, self._down = top - self._rows.start, down[:, None]

    def __call__(self, plane: Bytes) -> npt.NDArray[np.uint16]:
        """The values read, 0 to 255."""
        source = plane[self._rows].astype(np.uint16)
        wide = _between(source, self._left, self._across, 1)
        total = _between(wide, self._top, self._down, 0)
        total += _STEPS * _STEPS // 2
        total >>= 8
        return total


def _between(
    source: npt.NDArray[np.uint16],
    before: npt.NDArray[np.intp],
    weight: npt.NDArray[np.uint16],
    axis: int,
) -> npt.NDArray[np.uint16]:
    """16 times what lies `weight` sixteenths after the samples `before`, along `axis`."""
    near = source.take(before, axis, mode="clip")
    near *= np.uint16(_STEPS) - weight
    if weight.any():
        far = source.take(before + 1, axis, mode="clip")
        far *= weight
        near += far
    return near
