"""The inset that shows the scene from above: to scale along the road, stretched across it."""

from collections.abc import Iterator

import numpy as np
from PIL import ImageDraw

from modeld.replay.palette import (
    EDGE,
    FAINT_TEXT,
    GRID,
    LANE,
    LEAD,
    OUTER_LANE,
    PANEL,
    PATH,
    TRUTH,
    Paint,
    font,
    paint,
)
from modeld.replay.scene import Floats, Scene

# Pixels of the overlay's double-size canvas.
_WIDTH, _HEIGHT, _MARGIN = 330, 640, 24
_AHEAD_M, _TICK_M = 100.0, 25
_ACROSS_M = 9.0  # to each side
_LEAD_SHOWN = 0.5


class Birdseye:
    """The inset in the upper right corner of a canvas of `size` pixels."""

    def __init__(self, draw: ImageDraw.ImageDraw, size: tuple[int, int]) -> None:
        self._draw = draw
        self._left, self._top = size[0] - _WIDTH - _MARGIN, _MARGIN

    def show(self, scene: Scene, truth: tuple[Floats, ...]) -> None:
        """Draw panel, distance ticks, lines and the vehicle ahead."""
        left, top = self._left, self._top
        self._draw.rounded_rectangle((left, top, left + _WIDTH, top + _HEIGHT), 22, PANEL)
        for metres in range(0, int(_AHEAD_M) + 1, _TICK_M):
            ((_, y),) = self._place(np.array([[metres, 0.0]]))
            self._draw.line((left + 62, y, left + _WIDTH - 16, y), GRID, 2)
            self._draw.text((left + 52, y), f"{metres}", FAINT_TEXT, font(22), anchor="rm")
        for points, colour, width in _lines(scene, truth):
            self._polyline(points, colour, width)
        for lead in scene.leads[:1]:
            inside = 0 < lead.x < _AHEAD_M and abs(lead.y) < _ACROSS_M
            if lead.probability > _LEAD_SHOWN and inside:
                ((x, y),) = self._place(np.array([[lead.x, lead.y]]))
                self._draw.rounded_rectangle((x - 14, y - 26, x + 14, y), 6, paint(LEAD, 1.0))

    def _place(self, points: Floats) -> list[list[float]]:
        ahead, right = points[:, 0], points[:, 1]
        middle, half = self._left + 40 + _WIDTH / 2, _WIDTH / 2 - 50
        x = middle + right / _ACROSS_M * half
        y = self._top + _HEIGHT - 24 - ahead / _AHEAD_M * (_HEIGHT - 56)
        places: list[list[float]] = np.stack([x, y], -1).tolist()
        return places

    def _polyline(self, points: Floats, colour: Paint, width: int) -> None:
        inside = (
            np.isfinite(points[:, :2]).all(1)
            & (points[:, 0] >= 0)
            & (points[:, 0] <= _AHEAD_M)
            & (np.abs(points[:, 1]) <= _ACROSS_M)
        )
        places = self._place(points[:, :2])
        for i in np.flatnonzero(inside[:-1] & inside[1:]):
            self._draw.line((*places[i], *places[i + 1]), colour, width)


def _lines(scene: Scene, truth: tuple[Floats, ...]) -> Iterator[tuple[Floats, Paint, int]]:
    yield scene.path, paint(PATH, 0.9), 12
    for edge in scene.road_edges:
        yield edge.points, paint(EDGE, 0.2 + 0.8 * edge.probability), 5
    own = scene.own_lines
    for index, line in enumerate(scene.lane_lines):
        colour = LANE if index in own else OUTER_LANE
        yield line.points, paint(colour, 0.2 + 0.8 * line.probability), 5
    for points in truth:
        yield points, paint(TRUTH, 0.9), 3
