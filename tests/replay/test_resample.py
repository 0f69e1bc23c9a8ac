"""Resampling: known points land where K_camera · K_clip⁻¹ puts them."""

from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modeld.calibration import Intrinsics
from modeld.cameras.frame import FrameLayout
from modeld.cameras.nv12 import packed_layout, venus_layout
from modeld.errors import ModeldError
from modeld.replay.resample import (
    Bilinear,
    Separable,
    clip_pixels,
    nv12_views,
    plane_reader,
    sidecar_resampler,
)
from modeld.replay.sidecar import Sidecar
from modeld.replay.video import Picture

CAMERA = Intrinsics(336, 190, 285.0)
MOUNT = {"rpy": (0.0, 0.0, 0.0), "camera_height": 1.2}


def redraw(sidecar: Sidecar, picture: Picture, layout: FrameLayout) -> npt.NDArray[np.uint8]:
    return sidecar_resampler(sidecar, CAMERA, layout)(picture, np.zeros(layout.bytes, np.uint8))


def grey(size: tuple[int, int], luma: int = 100) -> Picture:
    width, height = size
    return Picture(
        np.full((height, width), luma, np.uint8),
        np.full((height // 2, width // 2, 2), 128, np.uint8),
    )


@settings(deadline=None, max_examples=25)
@given(x=st.integers(20, 200), y=st.integers(20, 120), focal=st.sampled_from([285.0, 240.0, 200.0]))
def test_a_point_moves_by_the_intrinsics(x: int, y: int, focal: float) -> None:
    sidecar = Sidecar(Intrinsics(240, 140, focal, 118.0, 71.0), **MOUNT)
    picture = grey((240, 140), 16)
    picture.luma[y - 1 : y + 2, x - 1 : x + 2] = 235
    layout = packed_layout(336, 190)
    luma, _ = nv12_views(redraw(sidecar, picture, layout), layout)
    place = CAMERA.matrix @ np.linalg.inv(sidecar.camera.matrix) @ [x, y, 1]
    if not (8 < place[0] < 328 and 8 < place[1] < 182):
        return
    rows, columns = np.mgrid[0:190, 0:336]
    weight = luma.astype(float) - 16
    # The centre of the bright spot, to a tenth of a pixel.
    assert np.sum(columns * weight) / weight.sum() == pytest.approx(place[0], abs=0.1)
    assert np.sum(rows * weight) / weight.sum() == pytest.approx(place[1], abs=0.1)


def test_the_same_camera_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    picture = Picture(
        rng.integers(0, 256, (190, 336), np.uint8), rng.integers(0, 256, (95, 168, 2), np.uint8)
    )
    layout = venus_layout(336, 190)
    data = redraw(Sidecar(CAMERA, **MOUNT), picture, layout)
    assert data.shape == (layout.bytes,)
    luma, chroma = nv12_views(data, layout)
    np.testing.assert_array_equal(luma, picture.luma)
    np.testing.assert_array_equal(chroma, picture.chroma)


def test_nv12_lies_where_the_layout_says() -> None:
    picture = grey((336, 190))
    picture.luma[7, 5] = 200
    picture.chroma[3, 2] = (33, 44)
    layout = venus_layout(336, 190)
    data = redraw(Sidecar(CAMERA, **MOUNT), picture, layout)
    assert data[7 * layout.stride + 5] == 200
    at = layout.uv_offset + 3 * layout.stride + 2 * 2
    assert tuple(data[at : at + 2]) == (33, 44)


def test_bright_and_dark_survive_the_fixed_point() -> None:
    layout = packed_layout(336, 190)
    sidecar = Sidecar(Intrinsics(240, 140, 233.0), **MOUNT)
    for level in (0, 255):
        luma, _ = nv12_views(redraw(sidecar, grey((240, 140), level), layout), layout)
        assert luma.min() == luma.max() == level


def test_outside_the_clip_its_border_is_repeated() -> None:
    picture = grey((240, 140))
    picture.luma[:, 0] = 33
    layout = packed_layout(336, 190)
    sidecar = Sidecar(Intrinsics(240, 140, 570.0), **MOUNT)
    luma, _ = nv12_views(redraw(sidecar, picture, layout), layout)
    assert set(luma[95, :100]) == {33}


def test_distortion_bends_as_opencv_defines_it() -> None:
    # Expected by cv2.projectPoints for the ray (0.2, -0.1, 1) with these five coefficients.
    sidecar = Sidecar(
        Intrinsics(1280, 720, 1161.0, 667.6, 386.3),
        distortion=(-0.274, 0.10, 0.001, -0.002, 0.05),
        **MOUNT,
    )
    camera = Intrinsics(1344, 760, 1141.5)
    pixel = camera.matrix @ [0.2, -0.1, 1.0]
    place = clip_pixels(sidecar, camera, pixel[None, :2])
    np.testing.assert_allclose(place[0], [896.33006125, 271.934969375], atol=1e-6)


def test_a_picture_of_another_size_is_named() -> None:
    layout = packed_layout(336, 190)
    sidecar = Sidecar(Intrinsics(240, 140, 285.0), **MOUNT)
    with pytest.raises(ModeldError, match="picture is 320x180, expected 240x140"):
        redraw(sidecar, grey((320, 180)), layout)


@pytest.mark.parametrize("size", [(641, 361), (640, 361), (641, 360)])
def test_odd_sides_are_said_to_be_cut(size: tuple[int, int]) -> None:
    sidecar = Sidecar(Intrinsics(*size, 285.0), **MOUNT)
    with pytest.raises(ModeldError, match="with even sides: an odd last row or column is left off"):
        redraw(sidecar, grey((640, 360)), packed_layout(336, 190))
    with pytest.raises(ModeldError, match=r"take out the pictures of another size$"):
        redraw(Sidecar(Intrinsics(240, 140, 285.0), **MOUNT), grey((640, 360)), packed_layout(4, 4))


@settings(max_examples=80, deadline=None)
@given(
    st.integers(2, 12).map(lambda n: 2 * n),
    st.integers(2, 12).map(lambda n: 2 * n),
    st.floats(0.2, 3.0),
    st.floats(0.2, 3.0),
    st.floats(-9.0, 9.0),
    st.floats(-9.0, 9.0),
    st.randoms(use_true_random=False),
)
def test_straight_rows_and_columns_read_the_same_numbers(
    width: int, height: int, scale_x: float, scale_y: float, x: float, y: float, random: Random
) -> None:
    rows, columns = np.mgrid[0:13, 0:17].astype(np.float64)
    places = np.stack([columns * scale_x + x, rows * scale_y + y], -1)
    plane = np.frombuffer(random.randbytes(width * height), np.uint8).reshape(height, width)
    expected = Bilinear(places, width, height)(plane)
    np.testing.assert_array_equal(Separable(places, width, height)(plane), expected)
    assert isinstance(plane_reader(places, width, height), Separable)
    places[3, 3] += 0.5
    assert isinstance(plane_reader(places, width, height), Bilinear)
