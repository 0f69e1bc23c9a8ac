"""Drawing what the network saw onto the frame it saw it in.

Everything is drawn at twice the size and scaled down, which is what makes the edges smooth.
"""

from dataclasses import dataclass

import av
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from modeld.cameras.frame import Frame
from modeld.replay.birdseye import Birdseye
from modeld.replay.palette import (
    CONFIDENCE,
    EDGE,
    FAINT_TEXT,
    LANE,
    LEAD,
    OUTER_LANE,
    PANEL,
    PATH,
    TEXT,
    TRUTH,
    Colour,
    font,
    paint,
)
from modeld.replay.resample import nv12_views
from modeld.replay.scene import Floats, Lead, Line, Projection, Scene
from modeld.replay.simulation import Recording

Pixels = npt.NDArray[np.uint8]

_SCALE = 2
_PATH_HALF_WIDTH = 0.9  # m, about a car
_LINE_HALF_WIDTH = 0.05  # m, painted lines are 0.1 to 0.15 m wide
_EDGE_HALF_WIDTH = 0.12
_TRUTH_HALF_WIDTH = 0.025
_FAINTEST = 0.18  # a line of probability 0 is still shown, faintly
_LEAD_SHOWN = 0.5
_PATH_END = 100.0  # m
_GRAVITY = 9.81  # m/s²


@dataclass(frozen=True, slots=True)
class View:
    """How frames are looked at: projection, camera height in metres, and the part worth seeing.

    `crop` is left, top, right, bottom in pixels.
    """

    projection: Projection
    camera_height: float
    crop: tuple[int, int, int, int]
    title: str = ""


def view_of(recording: Recording) -> View:
    """How the frames of a recording's main camera are looked at."""
    profile = recording.profile
    projection = Projection(recording.camera, profile.rpy)
    return View(projection, profile.height, recording.visible, recording.title)


def frame_to_rgb(frame: Frame) -> Pixels:
    """An NV12 frame (BT.601, limited range) as (height, width, 3) RGB."""
    layout = frame.layout
    luma, chroma = nv12_views(frame.data, layout)
    packed = np.concatenate([luma, chroma.reshape(layout.height // 2, layout.width)])
    picture = av.VideoFrame.from_ndarray(packed, format="nv12")
    rgb: Pixels = picture.reformat(format="rgb24", src_colorspace="ITU601").to_ndarray()
    return rgb


def draw_overlay(rgb: Pixels, scene: Scene, view: View, truth: tuple[Floats, ...] = ()) -> Pixels:
    """The cropped picture with path, lines, edges, leads and numbers on it; RGB.

    `truth` are known lines (n, 3) on the road, drawn thinly for comparison.
    """
    left, top, right, bottom = view.crop
    picture = Image.fromarray(rgb[top:bottom, left:right])
    canvas = _Canvas(picture.size, (left, top))
    # The plan is the camera's own way through the air; what it drives over lies below.
    path = scene.path[scene.path[:, 0] <= _PATH_END] + [0, 0, view.camera_height]
    canvas.ribbon(view.projection, path, _PATH_HALF_WIDTH, PATH, 0.45, fade_to=_PATH_END)
    for edge in scene.road_edges:
        canvas.line(view.projection, edge, _EDGE_HALF_WIDTH, EDGE)
    for index, line in enumerate(scene.lane_lines):
        colour = LANE if index in scene.own_lines else OUTER_LANE
        canvas.line(view.projection, line, _LINE_HALF_WIDTH, colour)
    for points in truth:
        canvas.ribbon(view.projection, points, _TRUTH_HALF_WIDTH, TRUTH, 0.9, fade_to=None)
    for lead in scene.leads:
        if lead.probability > _LEAD_SHOWN:
            canvas.lead(view, lead, scene.speed)
            break  # the others are the same vehicle at a later moment
    for index, line in enumerate(scene.lane_lines):
        canvas.probability(view.projection, index, line)
    canvas.numbers(scene, view.title)
    Birdseye(canvas.draw, canvas.size).show(scene, truth)
    drawn = canvas.image.reduce(_SCALE)
    return np.asarray(Image.alpha_composite(picture.convert("RGBA"), drawn).convert("RGB"))


class _Canvas:
    """A transparent layer, twice the picture's size; drawing replaces what is under it."""

    def __init__(self, size: tuple[int, int], origin: tuple[int, int]) -> None:
        self.size = (size[0] * _SCALE, size[1] * _SCALE)
        self._origin = np.array(origin)
        self.image = Image.new("RGBA", self.size)
        self.draw = ImageDraw.Draw(self.image)

    def _place(self, pixels: Floats) -> Floats:
        places: Floats = (pixels - self._origin) * _SCALE
        return places

    def ribbon(
        self,
        projection: Projection,
        points: Floats,
        half_width: float,
        colour: Colour,
        alpha: float,
        fade_to: float | None,
    ) -> None:
        """A flat strip along `points`, its opacity falling to nothing at `fade_to` metres."""
        left, right, distance = projection.ribbon(points, half_width)
        left, right = self._place(left), self._place(right)
        for i in range(len(distance) - 1):
            quad = np.concatenate([left[i : i + 2], right[i : i + 2][::-1]])
            if not np.isfinite(quad).all() or np.abs(quad).max() > 20_000:
                continue
            strength = 1.0 if fade_to is None else max(0.0, 1 - (distance[i] / fade_to) ** 0.7)
            corners = [tuple(corner) for corner in quad.tolist()]
            self.draw.polygon(corners, fill=paint(colour, alpha * strength))

    def line(self, projection: Projection, line: Line, half_width: float, colour: Colour) -> None:
        """A lane line or edge, as opaque as it is probable."""
        alpha = _FAINTEST + (0.95 - _FAINTEST) * line.probability
        self.ribbon(projection, line.points, half_width, colour, alpha, fade_to=None)

    def probability(self, projection: Projection, index: int, line: Line) -> None:
        """The line's probability, written where it leaves the picture at the bottom."""
        middle, _, _ = projection.ribbon(line.points, 0.0)
        places = self._place(middle)
        width, height = self.size
        inside = (
            np.isfinite(places).all(1)
            & (places[:, 1] < height - 40)
            & (places[:, 0] > 60)
            & (places[:, 0] < width - 60)
        )
        if not inside.any():
            return
        x, y = places[inside][0]
        # Labels of lines that run together would cover each other: one row for each.
        self.label(x, y - 26 - 34 * (index % 2), f"{line.probability:.2f}", 26)

    def label(self, x: float, y: float, text: str, size: int, colour: Colour = TEXT) -> None:
        """A line of text in a rounded box, centred at x, y."""
        left, top, right, bottom = self.draw.textbbox((x, y), text, font(size), anchor="mm")
        self.draw.rounded_rectangle((left - 10, top - 7, right + 10, bottom + 7), 10, PANEL)
        self.draw.text((x, y), text, colour, font(size), anchor="mm")

    def lead(self, view: View, lead: Lead, speed: float) -> None:
        """A marker under the vehicle ahead, with its distance and its speed."""
        ground = view.projection(np.array([[lead.x, lead.y, view.camera_height]]))
        (x, y), (width, height) = self._place(ground)[0], self.size
        if not (np.isfinite([x, y]).all() and 0 < x < width and 0 < y < height):
            return
        half = float(np.clip(900 / max(lead.x, 1.0), 12, 44))
        shape = [(x - half, y + half), (x, y), (x + half, y + half)]
        self.draw.polygon(shape, fill=paint(LEAD, 0.9), outline=(60, 40, 0, 255), width=3)
        text = f"{lead.x:.0f} m  {lead.speed - speed:+.1f} m/s"
        self.label(x, y + half + 30, text, 28, LEAD)

    def numbers(self, scene: Scene, title: str) -> None:
        """The panel in the upper left corner."""
        radius = 1 / scene.desired_curvature if abs(scene.desired_curvature) > 1e-4 else None
        rows = [
            ("frame", f"{scene.frame_id}" + ("" if scene.valid else "  (not valid)")),
            ("speed", f"{scene.speed:.1f} m/s"),
            ("steer", f"radius {radius:+.0f} m" if radius else "straight"),
            ("accel", f"{scene.desired_acceleration / _GRAVITY:+.3f} g"),
            ("model", f"{scene.execution_time * 1e3:.1f} ms"),
        ]
        height = 40 * len(rows) + 34 + (44 if title else 0)
        self.draw.rounded_rectangle((24, 24, 424, 24 + height), 22, PANEL)
        y = 44
        if title:
            self.draw.text((48, y), title, TEXT, font(30))
            y += 48
        for name, value in rows:
            self.draw.text((48, y), name, FAINT_TEXT, font(27))
            self.draw.text((150, y), value, TEXT, font(27))
            y += 40
        colour = CONFIDENCE.get(scene.confidence, TEXT)
        self.draw.ellipse((376, 44, 400, 68), fill=colour)
