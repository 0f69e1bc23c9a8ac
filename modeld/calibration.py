"""From a calibrated camera to the network's view: intrinsics, Euler angles, warp matrices.

Frames of reference: device is x forward, y right, z down; view is x right, y down, z forward.
A warp matrix maps pixels of the network's virtual camera to pixels of the real one, so a warp
reads, for each pixel it writes, the place where that pixel comes from.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modeld.errors import ModeldError

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Intrinsics:
    """A pinhole camera, all in pixels; the principal point is the middle unless given."""

    width: int
    height: int
    focal: float
    center_x: float | None = None
    center_y: float | None = None

    @property
    def matrix(self) -> Matrix:
        """K, (3, 3): view-frame rays to pixels."""
        cx = self.width / 2 if self.center_x is None else self.center_x
        cy = self.height / 2 if self.center_y is None else self.center_y
        return np.array([[self.focal, 0, cx], [0, self.focal, cy], [0, 0, 1]], np.float64)


@dataclass(frozen=True, slots=True)
class DeviceCameras:
    """The two road cameras of a device; `wide` is None where it has none."""

    narrow: Intrinsics
    wide: Intrinsics | None


_AR_OX = DeviceCameras(Intrinsics(1928, 1208, 2648.0), Intrinsics(1928, 1208, 567.0))
_OS = DeviceCameras(Intrinsics(1344, 760, 1522.0 * 3 / 4), Intrinsics(1344, 760, 567.0 * 3 / 4))
_NEO = DeviceCameras(Intrinsics(1164, 874, 910.0), None)

# (deviceState.deviceType, camera state's sensor) → cameras. Sensors were not named before the
# OX03C10 came, devices not before the tici: "unknown" stands for those, "pc" for simulators.
DEVICE_CAMERAS: dict[tuple[str, str], DeviceCameras] = {
    ("neo", "unknown"): _NEO,
    ("tici", "unknown"): _AR_OX,
    ("pc", "unknown"): _AR_OX,
    ("unknown", "ar0231"): _AR_OX,
    ("unknown", "ox03c10"): _AR_OX,
    **{(device, "ar0231"): _AR_OX for device in ("tici", "tizi", "mici")},
    **{(device, "ox03c10"): _AR_OX for device in ("tici", "tizi", "mici")},
    **{(device, "os04c10"): _OS for device in ("tici", "tizi", "mici")},
}


def device_cameras(device: str, sensor: str) -> DeviceCameras:
    """The cameras of a device by the names its messages carry; ModeldError for unknown pairs."""
    try:
        return DEVICE_CAMERAS[device, sensor]
    except KeyError:
        known = ", ".join(sorted(f"{d}/{s}" for d, s in DEVICE_CAMERAS))
        raise ModeldError(
            f"no camera intrinsics for device {device!r} with sensor {sensor!r}; known: {known}"
        ) from None


# The network's two virtual cameras: the narrow view, and twice as wide at the same size with the
# same horizon row (0.5 * (256 + 47.6) keeps it there).
MEDMODEL = Intrinsics(512, 256, 910.0, 256.0, 47.6)
SBIGMODEL = Intrinsics(512, 256, 455.0, 256.0, 0.5 * (256 + 47.6))

VIEW_FROM_DEVICE: Matrix = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], np.float64)
VIEW_FROM_DEVICE.flags.writeable = False


def rot_from_euler(rpy: Sequence[float] | npt.NDArray[np.floating]) -> Matrix:
    """Rotation Rz(yaw) · Ry(pitch) · Rx(roll), (3, 3), angles in radians."""
    roll, pitch, yaw = (float(angle) for angle in rpy)
    (cr, cp, cy), (sr, sp, sy) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    about_x = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    about_y = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    about_z = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    rotation: Matrix = about_z @ about_y @ about_x
    return rotation


def calib_from_model(model: Intrinsics) -> Matrix:
    """Pixels of a virtual camera → directions in the calibrated frame, (3, 3)."""
    inverse: Matrix = np.linalg.inv(model.matrix @ VIEW_FROM_DEVICE).astype(np.float64)
    return inverse


def warp_matrix(
    rpy: Sequence[float] | npt.NDArray[np.floating], camera: Intrinsics, model: Intrinsics
) -> Matrix:
    """Pixels of `model` → pixels of `camera` mounted at `rpy` radians, (3, 3)."""
    device_from_calib = rot_from_euler(rpy)
    return camera.matrix @ VIEW_FROM_DEVICE @ device_from_calib @ calib_from_model(model)


class CalibrationError(ModeldError):
    """A calibration message that cannot be used; the last usable one stays in force."""


class Calibration:
    """The two warp matrices in force, and whether a calibration was ever received.

    Until then both matrices are zero: the network runs on pixel 0 everywhere, and the messages
    made from it are marked invalid. A device never becomes uncalibrated again: as long as the
    mount is not re-measured the last angles are the best that is known.
    """

    def __init__(self) -> None:
        self.transforms: npt.NDArray[np.float32] = np.zeros((2, 3, 3), np.float32)
        self.seen = False

    def update(
        self, rpy: Sequence[float], main: Intrinsics, extra: Intrinsics, size: tuple[int, int]
    ) -> None:
        """Take new mounting angles (roll, pitch, yaw in radians) for frames of `size` pixels.

        Raises CalibrationError, leaving everything as it was, for angles that are not three
        finite numbers and for intrinsics that belong to another frame size.
        """
        angles = np.asarray(rpy, np.float32)
        if angles.shape != (3,) or not np.isfinite(angles).all():
            raise CalibrationError(
                f"calibration angles {list(rpy)} are not three finite numbers; "
                "the calibration before them is kept"
            )
        for camera in (main, extra):
            if (camera.width, camera.height) != size:
                raise CalibrationError(
                    f"camera frames are {size[0]}x{size[1]} but the device's intrinsics are for "
                    f"{camera.width}x{camera.height}; publish the deviceType and sensor that "
                    "belong to the frames"
                )
        self.transforms = np.stack(
            [warp_matrix(angles, main, MEDMODEL), warp_matrix(angles, extra, SBIGMODEL)]
        ).astype(np.float32)
        self.seen = True
