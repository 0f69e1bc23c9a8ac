"""Painting whole NV12 frames with numpy."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from modeld.calibration import Intrinsics, rot_from_euler
from modeld.cameras.frame import FrameLayout
from modeld.replay.road.camera import CAMERA_PARAMETERS, chroma, luma, pixel_rgb
from modeld.replay.road.maths import NumpyMaths
from modeld.replay.road.scene import Scene
from modeld.replay.road.shading import FULL, Detail

Bytes = npt.NDArray[np.uint8]
_MATHS = NumpyMaths()


def camera_values(
    camera: Intrinsics, rpy: Sequence[float], blur: float = 1.0
) -> dict[str, np.float32]:
    """`CAMERA_PARAMETERS` of a camera mounted at `rpy` radians; `blur` in its pixels."""
    matrix = camera.matrix
    rotation = rot_from_euler(rpy).ravel()
    values = [camera.focal, matrix[0, 2], matrix[1, 2], camera.width, camera.height, blur]
    return dict(zip(CAMERA_PARAMETERS, map(np.float32, [*values, *rotation]), strict=True))


class Painter:
    """Paints frames of one camera. `coarse` luma pixels share one value on each axis."""

    def __init__(
        self,
        camera: Intrinsics,
        rpy: Sequence[float],
        layout: FrameLayout,
        coarse: int = 1,
        detail: Detail = FULL,
    ) -> None:
        """A `coarse` above 1 is for pictures that must come fast: it is that much blurrier."""
        self._camera = camera_values(camera, rpy, max(1.0, 0.8 * coarse))
        self._layout = layout
        self._coarse = coarse
        self._detail = detail
        # Values stand for the middle of their block of pixels.
        middle = (coarse - 1) / 2
        columns = np.arange(0, layout.width, coarse).astype(np.float32) + np.float32(middle)
        rows = np.arange(0, layout.height, coarse).astype(np.float32) + np.float32(middle)
        self._u, self._v = np.meshgrid(columns, rows)

    def __call__(self, scene: Mapping[str, npt.NDArray[np.float32]]) -> Bytes:
        """`layout.bytes` bytes of NV12 of one scene (parameters of shape (1,) or ())."""
        layout = self._layout
        data = np.zeros(layout.bytes, np.uint8)
        bright, tinted = _planes(data, layout)
        rgb = pixel_rgb(_MATHS, scene, self._camera, self._u, self._v, self._detail)
        bright[:] = self._spread(luma(_MATHS, rgb), bright.shape)
        # Chroma samples lie on the upper left luma pixel of their four.
        step = 2 if self._coarse == 1 else 1
        corners = tuple(channel[::step, ::step] for channel in rgb)
        for index, plane in enumerate(chroma(_MATHS, corners)):
            tinted[..., index] = self._spread(plane, tinted.shape, 2 // step)
        return data

    def _spread(
        self, values: npt.NDArray[np.float32], shape: tuple[int, ...], shrink: int = 1
    ) -> Bytes:
        """Values of blocks as a plane of pixels; `shrink` halves the block for chroma."""
        plane = values.astype(np.uint8)
        if self._coarse == 1:
            return plane
        # Pixel i of a plane that is `shrink` times smaller lies in block i * shrink // coarse.
        columns = np.arange(shape[1]) * shrink // self._coarse
        rows = np.arange(shape[0]) * shrink // self._coarse
        spread: Bytes = plane[rows][:, columns]
        return spread


def _planes(data: Bytes, layout: FrameLayout) -> tuple[Bytes, Bytes]:
    bright = data[: layout.stride * layout.height].reshape(layout.height, layout.stride)
    tinted = data[layout.uv_offset : layout.bytes].reshape(layout.height // 2, layout.stride)
    pairs = tinted[:, : layout.width].reshape(layout.height // 2, layout.width // 2, 2)
    return bright[:, : layout.width], pairs


def one(scene: Scene, index: int) -> Scene:
    """The scene of one drive, each parameter of shape (1,)."""
    return {name: np.asarray(value[index : index + 1], np.float32) for name, value in scene.items()}
