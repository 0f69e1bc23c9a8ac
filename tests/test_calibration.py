import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modeld.calibration import (
    DEVICE_CAMERAS,
    MEDMODEL,
    SBIGMODEL,
    VIEW_FROM_DEVICE,
    Calibration,
    CalibrationError,
    Intrinsics,
    device_cameras,
    rot_from_euler,
    warp_matrix,
)
from modeld.errors import ModeldError

AR_OX = device_cameras("tici", "ox03c10")
OS = device_cameras("mici", "os04c10")
angles = st.floats(-0.3, 0.3)


@pytest.mark.parametrize(
    ("camera", "model", "scale", "tx", "ty"),
    [
        (AR_OX.narrow, MEDMODEL, 2.90989, 219.068132, 465.489231),
        (AR_OX.wide, SBIGMODEL, 1.246154, 644.984615, 414.833846),
        (OS.narrow, MEDMODEL, 1.254396, 350.874725, 320.290769),
        (OS.wide, SBIGMODEL, 0.934615, 432.738462, 238.125385),
    ],
)
def test_warp_matrices_of_a_level_mount(
    camera: Intrinsics, model: Intrinsics, scale: float, tx: float, ty: float
) -> None:
    expected = [[scale, 0, tx], [0, scale, ty], [0, 0, 1]]
    np.testing.assert_allclose(warp_matrix([0, 0, 0], camera, model), expected, rtol=0, atol=6e-7)


@pytest.mark.parametrize(
    ("pair", "size", "focal"),
    [
        (("tici", "unknown"), (1928, 1208), (2648.0, 567.0)),
        (("tizi", "ar0231"), (1928, 1208), (2648.0, 567.0)),
        (("pc", "unknown"), (1928, 1208), (2648.0, 567.0)),
        (("unknown", "ox03c10"), (1928, 1208), (2648.0, 567.0)),
        (("mici", "os04c10"), (1344, 760), (1141.5, 425.25)),
    ],
)
def test_device_cameras(
    pair: tuple[str, str], size: tuple[int, int], focal: tuple[float, float]
) -> None:
    cameras = device_cameras(*pair)
    assert cameras.wide is not None
    assert (cameras.narrow.focal, cameras.wide.focal) == focal
    assert (cameras.narrow.width, cameras.narrow.height) == size
    assert (cameras.wide.width, cameras.wide.height) == size


def test_neo_has_one_camera() -> None:
    neo = device_cameras("neo", "unknown")
    assert neo.wide is None
    assert neo.narrow == Intrinsics(1164, 874, 910.0)


def test_every_device_has_every_later_sensor() -> None:
    for pair in itertools.product(("tici", "tizi", "mici"), ("ar0231", "ox03c10", "os04c10")):
        assert pair in DEVICE_CAMERAS


def test_unknown_device_is_named() -> None:
    with pytest.raises(ModeldError, match=r"device 'tici' with sensor 'imx'; known: .*tici/ar0231"):
        device_cameras("tici", "imx")


@given(angles, angles, angles)
def test_rotation_is_yaw_after_pitch_after_roll(roll: float, pitch: float, yaw: float) -> None:
    whole = rot_from_euler([roll, pitch, yaw])
    parts = (
        rot_from_euler([0, 0, yaw]) @ rot_from_euler([0, pitch, 0]) @ rot_from_euler([roll, 0, 0])
    )
    np.testing.assert_allclose(whole, parts, atol=1e-15)
    np.testing.assert_allclose(whole @ whole.T, np.eye(3), atol=1e-14)
    assert np.linalg.det(whole) == pytest.approx(1, abs=1e-14)


@given(angles, angles, angles, st.integers(0, 511), st.integers(0, 255))
def test_warp_follows_a_ray(roll: float, pitch: float, yaw: float, x: int, y: int) -> None:
    # A model pixel's ray, turned into the mounted device's frame, meets the camera where the
    # matrix says.
    rpy = [roll, pitch, yaw]
    ray_view = np.linalg.solve(MEDMODEL.matrix, np.array([x, y, 1.0]))
    ray_device = rot_from_euler(rpy) @ (VIEW_FROM_DEVICE.T @ ray_view)
    expected = AR_OX.narrow.matrix @ (VIEW_FROM_DEVICE @ ray_device)
    found = warp_matrix(rpy, AR_OX.narrow, MEDMODEL) @ np.array([x, y, 1.0])
    np.testing.assert_allclose(found / found[2], expected / expected[2], rtol=1e-9)


def test_positive_yaw_and_pitch_move_the_principal_ray() -> None:
    # The device turned right sees the road further left; turned up, further down.
    center = np.array([MEDMODEL.center_x, MEDMODEL.center_y, 1.0])
    right = warp_matrix([0, 0, 0.01], AR_OX.narrow, MEDMODEL) @ center
    up = warp_matrix([0, 0.01, 0], AR_OX.narrow, MEDMODEL) @ center
    focal = AR_OX.narrow.focal
    assert right[0] / right[2] - 1928 / 2 == pytest.approx(focal * np.tan(0.01))
    assert up[1] / up[2] - 1208 / 2 == pytest.approx(-focal * np.tan(0.01))


def test_calibration_starts_at_zero_and_is_never_unseen() -> None:
    calibration = Calibration()
    assert not calibration.seen
    assert calibration.transforms.dtype == np.float32
    np.testing.assert_array_equal(calibration.transforms, np.zeros((2, 3, 3)))
    assert AR_OX.wide is not None
    calibration.update([0, 0, 0], AR_OX.narrow, AR_OX.wide, (1928, 1208))
    assert calibration.seen
    np.testing.assert_array_equal(
        calibration.transforms,
        np.stack(
            [
                warp_matrix([0, 0, 0], AR_OX.narrow, MEDMODEL),
                warp_matrix([0, 0, 0], AR_OX.wide, SBIGMODEL),
            ]
        ).astype(np.float32),
    )


@pytest.mark.parametrize("rpy", [[], [0, 0], [0, 0, 0, 0], [0, np.nan, 0], [np.inf, 0, 0]])
def test_unusable_angles_keep_the_calibration_before_them(rpy: list[float]) -> None:
    calibration = Calibration()
    calibration.update([0, 0.02, 0], AR_OX.narrow, AR_OX.narrow, (1928, 1208))
    before = calibration.transforms.copy()
    with pytest.raises(CalibrationError, match="not three finite numbers"):
        calibration.update(rpy, AR_OX.narrow, AR_OX.narrow, (1928, 1208))
    np.testing.assert_array_equal(calibration.transforms, before)
    assert calibration.seen


def test_intrinsics_of_another_frame_size_are_refused() -> None:
    calibration = Calibration()
    with pytest.raises(CalibrationError, match=r"frames are 1344x760 .* for 1928x1208"):
        calibration.update([0, 0, 0], AR_OX.narrow, AR_OX.narrow, (1344, 760))
    assert not calibration.seen
