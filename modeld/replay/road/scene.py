"""The scene's parameters by name, and random scenes drawn from the ranges that roads have.

A scene is a dict from parameter name to an array over drives, (drives,), float32 when painted.
What changes from frame to frame is set by `drive`; the rest is drawn here once per drive.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Scene = dict[str, Any]

LINES = 6  # marking slots, at (slot - 2.5) lane widths right of the first lane's middle
WALLS = 4  # trees left and right, then barriers left and right
VEHICLES = 5
LANES_ASIDE = 2  # at most, on each side of the first lane

# Set frame by frame: place on the road and attitude, then vehicles.
MOVING = ("along", "c0", "c1", "c2", "c3", "pitch", "roll", "crest", "bearing", "frame_seed")
VEHICLE_MOVING = ("x", "y", "slope", "on")
VEHICLE_FIXED = ("half", "tall", "length", "glass", "r", "g", "b", "lamp_r", "lamp_g", "lamp_b")

_COLOURS = (
    "haze", "zenith", "cloud", "hill", "verge", "field", "road", "kerb", "white", "yellow", "glass",
)  # fmt: skip
_FIXED = (
    "seed", "height", "lane_width", "haze", "ragged", "verge_rough", "shoulder_tone", "kerb",
    "paved_left", "paved_right", "edge_left", "edge_right", "other", "other_side", "tracks",
    "lane_tone", "grain", "blotch", "patches", "cracks", "seam", "seams", "joint_rate", "joints",
    "resurfaced", "resurfacing", "worn", "cross_line", "cross_paint", "leaf_rate", "leaf_reach",
    "leaf_side", "leaf_gap", "leaf_depth", "bridge", "bridge_half", "bridge_depth", "sun_side",
    "cloud_gap", "hills", "bushes", "exposure", "gamma", "veil", "vignette", "noise", "warm",
    "tint", "saturation", "bonnet", "bonnet_bend",
)  # fmt: skip
_LINE = ("across", "double", "half", "paint", "period", "phase", "dash", "yellow")
_WALL = ("side", "across", "top", "bottom", "rough", "r", "g", "b")


def _names() -> tuple[str, ...]:
    names = list(MOVING + _FIXED)
    names += [f"{colour}_{channel}" for colour in _COLOURS for channel in "rgb"]
    names += [f"line{i}_{part}" for i in range(LINES) for part in _LINE]
    names += [f"wall{i}_{part}" for i in range(WALLS) for part in _WALL]
    for i in range(VEHICLES):
        names += [f"car{i}_{part}" for part in VEHICLE_MOVING + VEHICLE_FIXED[:7]]
        names += [f"lamp{i}_{channel}" for channel in "rgb"]
    return tuple(names)


PARAMETERS = _names()


class Draw:
    """Random numbers for a number of drives at once."""

    def __init__(self, seed: int | list[int], drives: int) -> None:
        self.random = np.random.default_rng(seed)
        self.drives = drives

    def between(self, low: float, high: float) -> Floats:
        """Uniform in [low, high)."""
        return self.random.uniform(low, high, self.drives).astype(np.float32)

    def log_between(self, low: float, high: float) -> Floats:
        """Uniform in the logarithm."""
        return np.exp(self.random.uniform(np.log(low), np.log(high), self.drives)).astype(
            np.float32
        )

    def normal(self, deviation: float) -> Floats:
        """Normal around zero."""
        return self.random.normal(0, deviation, self.drives).astype(np.float32)

    def chance(self, probability: float) -> npt.NDArray[np.bool_]:
        """True with a probability."""
        return self.random.random(self.drives) < probability

    def whole(self, below: int) -> npt.NDArray[np.int64]:
        """0 to below - 1."""
        return self.random.integers(0, below, self.drives)

    def either(self, probability: float, this: Floats, that: Floats) -> Floats:
        """`this` with a probability, else `that`."""
        return np.where(self.chance(probability), this, that).astype(np.float32)

    def sometimes(self, probability: float, low: float, high: float) -> Floats:
        """Uniform with a probability, else 0."""
        return self.either(probability, self.between(low, high), np.zeros(1, np.float32))


def draw_scene(draw: Draw) -> Scene:
    """Random looks and layouts; what `drive` sets is absent."""
    scene: Scene = {"seed": np.float32(draw.random.integers(0, 1 << 20, draw.drives))}
    _draw_layout(draw, scene)
    _draw_lines(draw, scene)
    _draw_pavement(draw, scene)
    _draw_light(draw, scene)
    _draw_colours(draw, scene)
    _draw_walls(draw, scene)
    _draw_vehicles(draw, scene)
    return {name: np.asarray(value, np.float32) for name, value in scene.items()}


def _draw_layout(draw: Draw, scene: Scene) -> None:
    """Lanes, edges and the camera above them. `left` and `right` count lanes besides the first."""
    width = draw.either(0.75, draw.between(3.3, 3.9), draw.between(2.7, 4.2))
    left, right = draw.whole(LANES_ASIDE + 1), draw.whole(LANES_ASIDE + 1)
    scene["lane_width"], scene["left"], scene["right"] = width, left, right
    # Traffic comes towards us in the lanes beyond the line to the driver's side.
    scene["drives_left"] = draw.sometimes(0.25, 1, 1)
    scene["two_way"] = draw.sometimes(0.3, 1, 1)
    scene["height"] = draw.either(0.7, 1.22 + draw.normal(0.06), draw.between(1.0, 1.6))
    for side, lanes, name in ((-1, left, "left"), (1, right, "right")):
        painted = (lanes + 0.5) * width
        shoulder = draw.either(0.5, draw.between(0.2, 1.0), draw.between(1.0, 4.0))
        scene[f"paved_{name}"] = side * painted
        scene[f"edge_{name}"] = side * (painted + shoulder)
    scene["other_side"] = np.where(scene["drives_left"] > 0, 1, -1)
    beyond = np.where(scene["other_side"] > 0, scene["edge_right"], -scene["edge_left"])
    far = draw.either(0.4, draw.between(2, 12), np.full(1, 500.0, np.float32))
    scene["other"] = scene["other_side"] * (beyond + far)


# Dashed markings in use: period and painted length in metres (US, UK, DE, FR, JP, studs).
_DASHES = np.array(
    [(12.19, 3.05), (9.0, 3.0), (6.0, 2.0), (18.0, 6.0), (12.0, 6.0), (13.0, 3.0), (20.0, 8.0)]
)


def _draw_lines(draw: Draw, scene: Scene) -> None:
    left, right, width = scene["left"], scene["right"], scene["lane_width"]
    kind = draw.whole(len(_DASHES))
    period = _DASHES[kind, 0] * draw.between(0.9, 1.1)
    dash = _DASHES[kind, 1] * draw.between(0.85, 1.15)
    phase = draw.between(0, 20)
    half = draw.between(0.045, 0.085)
    yellow_side = np.where(scene["drives_left"] > 0, 1, -1)
    yellow_edge = draw.sometimes(0.5, 1, 1)
    for i in range(LINES):
        place = i - (LINES - 1) / 2
        outer = (place == -(left + 0.5)) | (place == right + 0.5)
        exists = (place >= -(left + 0.5)) & (place <= right + 0.5)
        middle = (place == 0.5 * yellow_side) & (scene["two_way"] > 0) & ~outer
        solid = np.where(outer, draw.chance(0.85), np.where(middle, draw.chance(0.5), False))
        solid |= draw.chance(0.07)
        scene[f"line{i}_across"] = place * width
        scene[f"line{i}_half"] = half * draw.between(0.85, 1.3)
        double = np.where(middle & draw.chance(0.5), draw.between(0.1, 0.2), 0)
        scene[f"line{i}_double"] = double
        paint = draw.either(0.85, draw.between(0.75, 1), draw.between(0.3, 0.75))
        painted = exists & ~draw.chance(0.07)
        scene[f"line{i}_paint"] = paint * painted
        scene[f"line{i}_period"] = np.where(solid, 50, period)
        scene[f"line{i}_dash"] = np.where(solid, 500, dash / 2)
        scene[f"line{i}_phase"] = phase + draw.sometimes(0.3, 0, 10)
        on_side = np.sign(place) == yellow_side
        scene[f"line{i}_yellow"] = (
            (outer & on_side & (yellow_edge > 0)) | (middle & draw.chance(0.7))
        ) * draw.between(0.6, 1)


def _draw_pavement(draw: Draw, scene: Scene) -> None:
    busy = draw.either(0.6, draw.between(0, 0.5), draw.between(0.5, 1.2))
    scene |= {
        "ragged": draw.sometimes(0.6, 0, 0.8),
        "verge_rough": draw.between(0.3, 1.2),
        "shoulder_tone": draw.sometimes(0.5, -0.25, 0.4),
        "kerb": draw.sometimes(0.3, 0.3, 1),
        "tracks": draw.sometimes(0.6, 0, 0.3),
        "lane_tone": draw.sometimes(0.5, 0, 0.6),
        "grain": 0.5 * busy,
        "blotch": 0.6 * busy * draw.between(0.3, 1),
        "patches": draw.sometimes(0.3, -0.3, 0.5),
        "cracks": draw.sometimes(0.3, 0, 0.08),
        "seam": draw.between(-5, 5),
        "seams": draw.sometimes(0.4, -0.4, 0.6),
        "joint_rate": np.float32(1) / draw.between(4, 20),
        "joints": draw.sometimes(0.3, 0, 0.5),
        "resurfaced": draw.between(0, 250),
        "resurfacing": draw.sometimes(0.2, -0.6, 2.0),
        "worn": draw.sometimes(0.6, 0, 0.8),
        "cross_line": draw.between(5, 300),
        "cross_paint": draw.sometimes(0.04, 0.5, 1),
    }


def _draw_light(draw: Draw, scene: Scene) -> None:
    dusk = draw.chance(0.08)
    exposure = draw.log_between(0.7, 2.2)
    scene |= {
        "haze": draw.log_between(0.0004, 0.006),
        "leaf_rate": draw.between(0.1, 0.35),
        "leaf_reach": draw.between(-6, 8),
        "leaf_side": draw.either(0.5, np.ones(1, np.float32), -np.ones(1, np.float32)),
        "leaf_gap": draw.either(0.45, draw.between(0.55, 1.0), np.full(1, 9, np.float32)),
        "leaf_depth": draw.between(0.2, 0.75),
        "bridge": draw.between(0, 250),
        "bridge_half": draw.between(3, 15),
        "bridge_depth": draw.sometimes(0.15, 0.3, 0.8),
        "sun_side": draw.between(-0.7, 0.7),
        "cloud_gap": draw.between(0.35, 1.1),
        "hills": draw.sometimes(0.7, 0, 0.12),
        "bushes": draw.between(0, 0.03),
        "exposure": np.where(dusk, 0.35 * exposure, exposure),
        "gamma": draw.between(0.4, 0.62),
        "veil": draw.sometimes(0.5, 0, 0.06),
        "vignette": draw.sometimes(0.6, 0, 0.5),
        "noise": draw.log_between(0.002, 0.03),
        "warm": draw.normal(0.07),
        "tint": draw.normal(0.03),
        "saturation": draw.between(0.5, 1.3),
        "bonnet": draw.either(0.2, draw.between(0.2, 0.3), np.full(1, 9, np.float32)),
        "bonnet_bend": draw.between(-0.2, 0.3),
    }


# Linear RGB ranges: (low, high) per channel share one random position, so that hues stay sane.
_RANGES: dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "haze": ((0.5, 0.6, 0.7), (0.9, 0.92, 0.95)),
    "zenith": ((0.08, 0.2, 0.5), (0.5, 0.6, 0.75)),
    "cloud": ((0.55, 0.57, 0.6), (1.0, 1.0, 1.0)),
    "hill": ((0.02, 0.04, 0.03), (0.25, 0.28, 0.3)),
    "verge": ((0.03, 0.06, 0.02), (0.5, 0.38, 0.2)),
    "field": ((0.04, 0.08, 0.02), (0.4, 0.32, 0.18)),
    "road": ((0.035, 0.036, 0.04), (0.26, 0.25, 0.24)),
    "kerb": ((0.2, 0.2, 0.2), (0.6, 0.6, 0.58)),
    "white": ((0.5, 0.5, 0.5), (0.95, 0.95, 0.92)),
    "yellow": ((0.5, 0.28, 0.02), (0.9, 0.6, 0.12)),
    "glass": ((0.01, 0.012, 0.015), (0.15, 0.18, 0.2)),
}
_WALL_COLOURS = (
    ((0.015, 0.03, 0.008), (0.12, 0.14, 0.06)),
    ((0.15, 0.15, 0.15), (0.5, 0.48, 0.45)),
)
_BODIES = np.array(
    [(0.8, 0.8, 0.8), (0.02, 0.02, 0.02), (0.35, 0.36, 0.38), (0.45, 0.03, 0.03),
     (0.04, 0.08, 0.3), (0.15, 0.15, 0.16), (0.5, 0.45, 0.35), (0.05, 0.15, 0.07)]
)  # fmt: skip


def _colour(
    draw: Draw, low: tuple[float, float, float], high: tuple[float, float, float]
) -> list[Floats]:
    place = draw.between(0, 1)
    return [
        (lo + (hi - lo) * np.clip(place + draw.normal(0.06), 0, 1)).astype(np.float32)
        for lo, hi in zip(low, high, strict=True)
    ]


def _set_colour(scene: Scene, name: str, colour: list[Floats]) -> None:
    for channel, value in zip("rgb", colour, strict=True):
        scene[f"{name}_{channel}"] = value


def _draw_colours(draw: Draw, scene: Scene) -> None:
    for name, (low, high) in _RANGES.items():
        _set_colour(scene, name, _colour(draw, low, high))
    # Concrete is lighter than any asphalt, and its paint no brighter.
    concrete = draw.chance(0.15)
    for channel in "rgb":
        light = scene[f"road_{channel}"] * 0.5 + 0.28
        scene[f"road_{channel}"] = np.where(concrete, light, scene[f"road_{channel}"])
        # Paint is always a good deal brighter than what it lies on.
        least = np.minimum(2.2 * scene[f"road_{channel}"] + 0.1, 1.0)
        scene[f"white_{channel}"] = np.maximum(scene[f"white_{channel}"], least)


def _draw_walls(draw: Draw, scene: Scene) -> None:
    for i in range(WALLS):
        side, name = (-1, "left") if i % 2 == 0 else (1, "right")
        edge = np.abs(scene[f"edge_{name}"])
        trees = i < 2
        away = draw.between(2, 25) if trees else draw.between(0.0, 0.6)
        top = draw.log_between(2, 14) if trees else draw.between(0.6, 1.3)
        present = draw.chance(0.75 if trees else 0.45)
        rail = draw.sometimes(0.0 if trees else 0.5, 0.3, 0.5)
        green = draw.chance(0.85 if trees else 0.1)
        scene[f"wall{i}_side"] = np.full(draw.drives, side)
        scene[f"wall{i}_across"] = side * (edge + away)
        scene[f"wall{i}_top"] = np.where(present, top, 0)
        scene[f"wall{i}_bottom"] = np.where(rail > 0, rail, -0.3)
        scene[f"wall{i}_rough"] = np.where(green, draw.between(0.4, 0.9), draw.between(0, 0.1))
        plant, built = (_colour(draw, *pair) for pair in _WALL_COLOURS)
        _set_colour(
            scene,
            f"wall{i}",
            [np.where(green, a, b) for a, b in zip(plant, built, strict=True)],
        )


def _draw_vehicles(draw: Draw, scene: Scene) -> None:
    for i in range(VEHICLES):
        truck = draw.chance(0.15)
        scene[f"car{i}_half"] = np.where(truck, draw.between(1.1, 1.28), draw.between(0.82, 1.0))
        scene[f"car{i}_tall"] = np.where(truck, draw.between(2.3, 4.0), draw.between(1.35, 1.9))
        scene[f"car{i}_length"] = np.where(truck, draw.between(6, 16), draw.between(3.8, 5.2))
        scene[f"car{i}_glass"] = np.where(truck, draw.sometimes(0.4, 0.2, 1), 1)
        shade = draw.between(0.6, 1.2)
        body = _BODIES[draw.whole(len(_BODIES))] * shade[:, None]
        _set_colour(scene, f"car{i}", list(np.clip(body, 0, 1).T))
        red = draw.between(0.15, 0.9)
        _set_colour(scene, f"lamp{i}", [red, 0.1 * red, 0.08 * red])
