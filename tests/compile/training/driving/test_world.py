"""Painting for the network directly equals painting frames and warping them as the device does."""

import numpy as np
import pytest
from tinygrad import Tensor

from compile.training.driving.world import camera_rows, paint, paint_source
from modeld.calibration import MEDMODEL, SBIGMODEL, Intrinsics, warp_matrix
from modeld.cameras.nv12 import packed_layout
from modeld.errors import ModeldError
from modeld.replay.road.drive import Drive, parameter_rows
from modeld.replay.road.render import Painter, one

RPY = np.array([0.01, -0.02, 0.01])
# Small cameras keep whole frames affordable; both reach past their borders somewhere.
NARROW, WIDE = Intrinsics(480, 300, 600.0), Intrinsics(480, 300, 260.0)


def _warp(plane: np.ndarray, matrix: np.ndarray, width: int, height: int) -> np.ndarray:
    """Nearest neighbour, clamped, float32: the device's warp re-stated."""
    x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    m = matrix.astype(np.float32)
    depth = m[2, 0] * x + m[2, 1] * y + m[2, 2]
    u = np.rint((m[0, 0] * x + m[0, 1] * y + m[0, 2]) / depth).clip(0, plane.shape[1] - 1)
    v = np.rint((m[1, 0] * x + m[1, 1] * y + m[1, 2]) / depth).clip(0, plane.shape[0] - 1)
    warped: np.ndarray = plane[v.astype(int), u.astype(int)]
    return warped


def test_direct_painting_equals_frames_through_the_warp() -> None:
    drive = Drive(3, 2)
    drive.step(0.2)
    scene = drive.moment().scene
    rows = camera_rows(NARROW, WIDE, RPY, np.zeros(3), np.ones(2))
    painted = paint(
        Tensor(parameter_rows(scene), device="CL"), Tensor(np.stack([rows, rows]), device="CL")
    ).numpy()
    layout = packed_layout(480, 300)
    half = np.array([[1, 1, 0.5], [1, 1, 0.5], [2, 2, 1]])
    for camera, lens, model in ((0, NARROW, MEDMODEL), (1, WIDE, SBIGMODEL)):
        data = Painter(lens, list(RPY), layout)(one(scene, 1))
        matrix = warp_matrix(RPY, lens, model)
        y = _warp(data[: 480 * 300].reshape(300, 480), matrix, 512, 256)
        uv = _warp(data[480 * 300 :].reshape(150, 240, 2), matrix * half, 256, 128)
        luma = (y[0::2, 0::2], y[1::2, 0::2], y[0::2, 1::2], y[1::2, 1::2])
        wanted = np.stack([*luma, uv[..., 0], uv[..., 1]])
        error = np.abs(wanted.astype(int) - painted[1, camera])
        # Rounding to whole values may fall either way; at a lane's edge a tone may switch.
        assert (error > 0).mean() < 1e-3
        assert (error > 1).mean() < 1e-4


def test_the_kernel_exists_in_both_languages() -> None:
    assert "__kernel void paint" in paint_source("OpenCL").replace("KERNEL", "__kernel")
    assert '#define KERNEL extern "C" __global__' in paint_source("CUDA")


def test_a_device_without_a_painter_is_named() -> None:
    scenes = Tensor.zeros(1, 1, device="PYTHON")
    with pytest.raises(ModeldError, match="not on PYTHON"):
        paint(scenes, scenes)
