"""What a modelV2 message says about the road, and where it is in a picture.

Geometry is in the calibrated frame: x forward, y right, z down, metres, origin at the camera.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from modeld.calibration import VIEW_FROM_DEVICE, Intrinsics, rot_from_euler
from modeld.messaging.events import enum_name

Floats = npt.NDArray[np.float64]

# Nearer points are not drawn: they are below the picture, and close to the plane of the camera.
_NEAREST_M = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """A lane line or road edge: points (n, 3), probability 0 to 1, lateral deviation in metres."""

    points: Floats
    probability: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Lead:
    """A vehicle ahead, now: metres forward and right, m/s, probability 0 to 1."""

    x: float
    y: float
    speed: float
    probability: float


@dataclass(frozen=True, slots=True)
class Scene:
    """One modelV2 message, as far as people look at it. Times in seconds, action in SI units."""

    frame_id: int
    valid: bool
    path: Floats
    lane_lines: tuple[Line, ...]
    road_edges: tuple[Line, ...]
    leads: tuple[Lead, ...]
    speed: float
    desired_curvature: float
    desired_acceleration: float
    execution_time: float
    confidence: str

    @property
    def own_lines(self) -> tuple[int, ...]:
        """Which lane lines bound the car's own lane."""
        return (1, 2) if len(self.lane_lines) == 4 else tuple(range(len(self.lane_lines)))


def scene_of(event: Any) -> Scene:
    """Read a modelV2 `Event`; lists of unequal length are cut to the shortest."""
    model = event.modelV2
    stds = list(model.roadEdgeStds)
    return Scene(
        frame_id=model.frameId,
        valid=event.valid,
        path=_points(model.position),
        lane_lines=tuple(
            Line(_points(line), probability, deviation)
            for line, probability, deviation in zip(
                model.laneLines, model.laneLineProbs, model.laneLineStds, strict=False
            )
        ),
        # Edges carry no probability; one surer than a metre or so is worth showing.
        road_edges=tuple(
            Line(_points(edge), float(np.clip(1 - deviation, 0, 1)), deviation)
            for edge, deviation in zip(model.roadEdges, stds, strict=False)
        ),
        leads=tuple(
            Lead(lead.x[0], lead.y[0], lead.v[0], lead.prob)
            for lead in model.leadsV3
            if len(lead.x) and len(lead.y) and len(lead.v)
        ),
        speed=model.velocity.x[0] if len(model.velocity.x) else 0.0,
        desired_curvature=model.action.desiredCurvature,
        desired_acceleration=model.action.desiredAcceleration,
        execution_time=model.modelExecutionTime,
        confidence=enum_name(model.confidence),
    )


def _points(series: Any) -> Floats:
    columns = [list(series.x), list(series.y), list(series.z)]
    count = min(len(column) for column in columns)
    return np.array([column[:count] for column in columns], np.float64).T


class Projection:
    """From the calibrated frame to pixels of a camera mounted at `rpy` radians."""

    def __init__(self, camera: Intrinsics, rpy: Sequence[float]) -> None:
        self._matrix = camera.matrix @ VIEW_FROM_DEVICE @ rot_from_euler(rpy)

    def __call__(self, points: Floats) -> Floats:
        """Pixels (n, 2) of points (n, 3); points not in front of the camera become NaN."""
        with np.errstate(divide="ignore", invalid="ignore"):  # wild numbers become NaN, too
            x, y, depth = self._matrix @ np.asarray(points, np.float64).T
            pixels = np.stack([x / depth, y / depth], -1)
        pixels[depth <= 0] = np.nan
        return pixels

    def ribbon(self, points: Floats, half_width: float) -> tuple[Floats, Floats, Floats]:
        """A strip lying flat along `points` (n, 3): its left and right pixels, and distances.

        Points nearer than a metre are dropped, and the gaps filled so that the strip is smooth
        and begins where the picture does.
        """
        dense = _densify(points)
        sideways = np.array([0.0, half_width, 0.0])
        return self(dense - sideways), self(dense + sideways), dense[:, 0]


def _densify(points: Floats) -> Floats:
    """Points at fixed distances, dense near the car, from a line that runs away from it."""
    x = points[:, 0]
    ahead = np.isfinite(points).all(1) & (np.maximum.accumulate(np.nan_to_num(x)) <= x)
    usable = points[ahead]
    if len(usable) < 2 or usable[-1, 0] <= _NEAREST_M:
        return np.empty((0, 3))
    start, end = max(usable[0, 0], _NEAREST_M), usable[-1, 0]
    grid = start * (end / start) ** np.linspace(0, 1, 96)
    columns = [grid] + [np.interp(grid, usable[:, 0], usable[:, i]) for i in (1, 2)]
    return np.stack(columns, -1)
