"""Answers about the procedural road, measured against its truth."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from rich.table import Table

from modeld.constants import DT_MODEL, X_IDXS
from modeld.grid import neighbours
from modeld.replay.road.drive import Drive
from modeld.replay.road.errors import path_error, sideways_error
from modeld.replay.road.truth import Truth, truth_of
from modeld.replay.scene import Scene

LINE_DISTANCES_M = (20.0, 40.0)
PATH_SECONDS = 2.0
# A lead farther away is a few pixels.
_LEAD_RANGE_M = 50.0


@dataclass
class RoadErrors:
    """Errors of one drive's answers: metres, and shares of the lead's distance.

    `lines` has those of painted lines by distance ahead; `paint` says of each line of each frame
    whether the probability was on the right side of a half.
    """

    lines: dict[float, list[float]] = field(
        default_factory=lambda: {distance: [] for distance in LINE_DISTANCES_M}
    )
    paint: list[bool] = field(default_factory=list)
    path: list[float] = field(default_factory=list)
    lead: list[float] = field(default_factory=list)

    def add(self, scene: Scene, truth: Truth) -> None:
        """Compare one answer with the truth about the first drive."""
        for line, points, painted in zip(
            scene.lane_lines, truth.lane_lines[0], truth.painted[0], strict=False
        ):
            self.paint.append((line.probability > 0.5) == bool(painted))
            if painted and line.points.shape == (len(X_IDXS), 3):
                for distance, errors in self.lines.items():
                    if truth.known[0, neighbours(X_IDXS, distance)[0] + 1]:
                        errors.append(
                            float(sideways_error(line.points[:, 1], points[:, 0], distance))
                        )
        if len(scene.path) == len(truth.plan[0]):
            self.path.append(path_error(scene.path, truth.plan[0], PATH_SECONDS))
        distance = float(truth.lead[0, 0, 0, 0])
        if truth.lead_there[0, 0] and distance < _LEAD_RANGE_M and scene.leads:
            self.lead.append(abs(scene.leads[0].x - distance) / distance)

    def rows(self) -> Iterator[tuple[str, str]]:
        """What was measured, in words."""
        for distance, errors in self.lines.items():
            yield f"lane lines at {distance:.0f} m", _metres(errors)
        yield f"path at {PATH_SECONDS:g} s", _metres(self.path)
        if self.lead:
            yield "lead distance", f"{np.median(self.lead):.0%} off (median)"
        if self.paint:
            yield "lines there or not", f"{np.mean(self.paint):.0%} right"

    def table(self) -> Table:
        """For people."""
        table = Table(box=None, show_header=False, padding=(0, 2), title="against the truth")
        table.title_justify = "left"
        table.add_column(style="bold")
        table.add_column()
        for what, value in self.rows():
            table.add_row(what, value)
        return table


def road_truths(seed: int, numbers: Collection[int]) -> dict[int, Truth]:
    """The truth about those frames of the road `seed`, driven at 20 Hz."""
    drive, truths = Drive(seed, 1), {}
    for number in range(max(numbers, default=-1) + 1):
        drive.step(DT_MODEL)
        if number in numbers:
            truths[number] = truth_of(drive.moment())
    return truths


def road_errors(scenes: Mapping[int, Scene], truths: Mapping[int, Truth]) -> RoadErrors:
    """Errors of the answers by frame number."""
    errors = RoadErrors()
    for number, scene in scenes.items():
        errors.add(scene, truths[number])
    return errors


def _metres(errors: list[float]) -> str:
    if not errors:
        return "nothing to compare"
    return f"{np.median(errors):.2f} m off (median), {np.percentile(errors, 90):.2f} m (9 of 10)"
