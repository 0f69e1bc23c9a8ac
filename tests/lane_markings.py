"""Where lane markings are in a real picture, as another network sees them."""

from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

from modeld.calibration import Intrinsics
from modeld.replay.scene import Projection, Scene

_SIDE = 320
_DISTANCES_M = (8.0, 10.0, 12.0, 15.0, 18.0, 21.0)
# Farther aside it is another line.
_NEAR_M = 1.2


class MarkingFinder:
    """TwinLiteNet: which pixels are lane markings."""

    def __init__(self, model: Path) -> None:
        self._session = onnxruntime.InferenceSession(str(model))
        self._input = self._session.get_inputs()[0].name

    def mask(self, rgb: np.ndarray) -> np.ndarray:
        """(320, 320) bool, of the whole picture (height, width, 3)."""
        small = np.asarray(Image.fromarray(rgb).resize((_SIDE, _SIDE)), np.float32) / 255
        lanes = self._session.run(["lanes"], {self._input: small.transpose(2, 0, 1)[None]})[0]
        return np.asarray(lanes[0].argmax(0) > 0)


def offsets(
    scene: Scene, mask: np.ndarray, projection: Projection, camera: Intrinsics
) -> tuple[list[float], int]:
    """Metres from the own lane's lines to the markings, and how many places were looked at.

    A place without a marking near it has no offset.
    """
    found, places = [], 0
    for index in scene.own_lines:
        points = scene.lane_lines[index].points
        for distance in _DISTANCES_M:
            y, z = (np.interp(distance, points[:, 0], points[:, c]) for c in (1, 2))
            ((u, v),) = projection(np.array([[distance, y, z]]))
            row = int(v * _SIDE / camera.height)
            if not 0 <= row < _SIDE:
                continue
            places += 1
            aside = (_middles(mask[row]) * camera.width / _SIDE - u) * distance / camera.focal
            if len(aside) and np.abs(aside).min() < _NEAR_M:
                found.append(float(np.abs(aside).min()))
    return found, places


def _middles(row: np.ndarray) -> np.ndarray:
    """Middles of the runs of a row of booleans."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
    return (edges[0::2] + edges[1::2]) / 2
