"""What colour a camera sees along a ray: ground, markings, walls, vehicles, sky, in that order.

One statement of the picture for every painter: numpy for frames and truth, tensors for training.
`p` holds the scene's parameters (see `scene.PARAMETERS`) as arrays that broadcast against the
rays. A ray leaves the camera towards (1, n, m): n metres right and m metres down per metre
ahead. Lengths are metres; colours are linear RGB, 0 to 1. Every edge is softened by the width of
the pixel's footprint there, so that pictures do not flicker.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from modeld.replay.road.maths import Array, Maths, clip01, mix, noise, overlap, ramp
from modeld.replay.road.scene import LINES, VEHICLES, WALLS

Parameters = Mapping[str, Array]
Colour = tuple[Array, Array, Array]

FARTHEST = 900.0
_NEAREST = 0.3


@dataclass(frozen=True, slots=True)
class Detail:
    """What is painted besides ground, markings and sky; less of it is faster."""

    textures: bool = True
    walls: bool = True
    vehicles: bool = True


FULL = Detail()
PLAIN = Detail(textures=False, walls=False)


@dataclass(frozen=True, slots=True)
class Rays:
    """Slopes of the rays, and the width of a pixel in slope units."""

    n: Array
    m: Array
    pixel: Array


@dataclass(frozen=True, slots=True)
class Ground:
    """Where rays meet the ground: distance ahead, position along and across the road.

    `across` is metres right of the middle of the lane the drive began in; `wide` and `long` are
    the pixel's footprint across and along; `hit` is false for rays that meet no ground, which
    are `missed`.
    """

    hit: Array
    missed: Array
    x: Array
    along: Array
    across: Array
    wide: Array
    long: Array


def shade(maths: Maths, p: Parameters, rays: Rays, detail: Detail = FULL) -> Colour:
    """Linear RGB along each ray, haze included, before the camera's own response."""
    ground = _meet_ground(maths, p, rays)
    colour: Colour = maths.choose(
        ground.missed, lambda: _sky(maths, p, rays, detail), (0.0, 0.0, 0.0)
    )
    colour = maths.choose(
        ground.hit,
        lambda: _hazed(maths, p, _ground_colour(maths, p, ground, detail), ground.x),
        colour,
    )
    if detail.walls:
        for index in range(WALLS):
            colour = maths.choose(
                p[f"wall{index}_top"] > 0,
                partial(_wall, maths, p, rays, ground, colour, index),
                colour,
            )
    if detail.vehicles:
        for index in range(VEHICLES):
            colour = maths.choose(
                p[f"car{index}_on"] > 0,
                partial(_vehicle, maths, p, rays, ground, colour, index),
                colour,
            )
    return colour


def centre(p: Parameters, x: Array) -> tuple[Array, Array]:
    """The road's middle line at x ahead: metres right, and its slope."""
    y = p["c0"] + x * (p["c1"] + x * (p["c2"] + x * p["c3"]))
    return y, p["c1"] + x * (2 * p["c2"] + 3 * x * p["c3"])


def ground_height(p: Parameters, x: Array, y: Array) -> Array:
    """Metres below the camera of the ground at (x, y)."""
    return p["height"] + p["pitch"] * x + p["roll"] * y + 0.5 * p["crest"] * x * x


def _meet_ground(maths: Maths, p: Parameters, rays: Rays) -> Ground:
    # height + (pitch + roll n) x + crest/2 x^2 = m x, solved so that a flat road is exact too.
    fall = rays.m - p["pitch"] - p["roll"] * rays.n
    square = fall * fall - 2 * p["crest"] * p["height"]
    root = maths.sqrt(maths.maximum(square, 1e-9))
    below = fall + root
    reach = maths.where(square > 1e-9, below - 2 * p["height"] / FARTHEST, -1.0)
    x = 2 * p["height"] / maths.maximum(below, 2 * p["height"] / FARTHEST)
    y, slope = centre(p, x)
    across = (x * rays.n - y) / maths.sqrt(1 + slope * slope)
    hit, missed = reach > 0, reach < 1e-30
    return Ground(hit, missed, x, p["along"] + x, across, x * rays.pixel, x * rays.pixel / root)


def _grey(colour: Colour, factor: Array) -> Colour:
    return colour[0] * factor, colour[1] * factor, colour[2] * factor


def _mixed(x: Colour, y: Colour, share: Array) -> Colour:
    return mix(x[0], y[0], share), mix(x[1], y[1], share), mix(x[2], y[2], share)


def _named(p: Parameters, name: str) -> Colour:
    return p[f"{name}_r"], p[f"{name}_g"], p[f"{name}_b"]


def _hazed(maths: Maths, p: Parameters, colour: Colour, x: Array) -> Colour:
    return _mixed(colour, _named(p, "haze"), 1 - maths.exp(-x * p["haze"]))


def _ground_colour(maths: Maths, p: Parameters, g: Ground, detail: Detail) -> Colour:
    soft = g.wide + 0.05
    ragged = g.across
    road: Colour = _named(p, "road")
    shoulder = maths.maximum(g.across - p["paved_right"], p["paved_left"] - g.across)
    if detail.textures:
        broad = noise(maths, g.along * 0.11, g.across * 0.6, p["seed"])
        coarse = noise(maths, g.along * 0.7, g.across * 1.3, p["seed"] + 1)
        fade = 1 / (1 + 0.5 * g.long)
        ragged = g.across + (coarse - 0.5) * p["ragged"] * fade
        road = _grey(road, _wear(maths, p, g, broad, coarse, fade))
    tone = 1 + p["shoulder_tone"] * ramp(maths, shoulder, soft)
    road = _grey(road, tone)
    road = _mixed(road, _named(p, "kerb"), _kerb(maths, p, g))
    paint, share = _markings(maths, p, g, detail)
    road = _mixed(road, paint, share)
    off = ramp(maths, maths.maximum(ragged - p["edge_right"], p["edge_left"] - ragged), soft)
    # Beyond the verge on one side there may be another carriageway.
    other = ramp(maths, (ragged - p["other"]) * p["other_side"], soft)
    grown = off * (1 - other)
    if not detail.textures:
        return _mixed(road, _named(p, "verge"), grown)
    colour = maths.choose(
        grown > 0, lambda: _mixed(road, _verge(maths, p, g, coarse, fade), grown), road
    )
    return _grey(colour, _shadows(maths, p, g))


def _verge(maths: Maths, p: Parameters, g: Ground, coarse: Array, fade: Array) -> Colour:
    """Grass or soil: tufts close by, fields far off."""
    fields = noise(maths, g.along * 0.03, g.across * 0.08, p["seed"] + 2)
    tufts = (coarse - 0.5) * 0.9 * fade * p["verge_rough"]
    base = _mixed(_named(p, "verge"), _named(p, "field"), fields)
    return _grey(base, 1 + tufts)


def _wear(
    maths: Maths, p: Parameters, g: Ground, broad: Array, coarse: Array, fade: Array
) -> Array:
    """Brightness of the pavement around 1: wheel tracks, patches, joints, grain, lane tones."""
    lane = g.across / p["lane_width"] + 0.5
    index = maths.floor(lane)
    off = maths.maximum(lane - index - 0.5, 0.5 - (lane - index)) * p["lane_width"]
    track = (off - 0.8) * 2.5
    tone = 1 - p["tracks"] * maths.exp(-track * track)
    (lane_tone,) = maths.choose(
        p["lane_tone"] > 0,
        lambda: (noise(maths, index, index * 0, p["seed"] + 3) - 0.5,),
        (0.0,),
    )
    tone = tone + p["lane_tone"] * lane_tone
    tone = tone + p["grain"] * (coarse - 0.5) * fade + p["blotch"] * (broad - 0.5)
    patch = ramp(maths, broad - 0.72, 0.04) * p["patches"]
    crack = maths.maximum(1 - 30 * maths.maximum(coarse - 0.5, 0.5 - coarse), 0.0) * fade
    seam = overlap(maths, g.across - p["seam"], 0.04, g.wide) * p["seams"]
    beat = g.along * p["joint_rate"]
    joint = overlap(maths, (beat - maths.floor(beat) - 0.5) / p["joint_rate"], 0.06, g.long + 0.02)
    second = ramp(maths, g.along - p["resurfaced"], g.long + 0.1) * p["resurfacing"]
    return (tone * (1 - patch) * (1 - seam) * (1 - p["joints"] * joint) - crack * p["cracks"]) * (
        1 + second
    )


def _kerb(maths: Maths, p: Parameters, g: Ground) -> Array:
    left = overlap(maths, g.across - p["edge_left"], 0.15, g.wide)
    right = overlap(maths, g.across - p["edge_right"], 0.15, g.wide)
    return (left + right) * p["kerb"]


def _markings(maths: Maths, p: Parameters, g: Ground, detail: Detail) -> tuple[Colour, Array]:
    """Paint colour, and how much of each pixel it covers."""
    share: Array = 0.0
    yellow: Array = 0.0
    for i in range(LINES):
        cover = maths.choose(p[f"line{i}_paint"] > 0, partial(_line, maths, p, g, i), (0.0,))[0]
        share = share + cover
        yellow = yellow + cover * p[f"line{i}_yellow"]
    if detail.textures:
        share = maths.choose(share > 0, partial(_worn, maths, p, g, share), (share,))[0]
    stop = overlap(maths, g.along - p["cross_line"], 0.2, g.long) * p["cross_paint"]
    share = maths.minimum(share + stop, 1.0)
    tint = maths.minimum(yellow / maths.maximum(share, 1e-3), 1.0)
    paint = _mixed(_named(p, "white"), _named(p, "yellow"), tint)
    return paint, share


def _line(maths: Maths, p: Parameters, g: Ground, i: int) -> tuple[Array]:
    """How much of each pixel marking `i` covers."""
    away = g.across - p[f"line{i}_across"]
    away = maths.maximum(away, -away) - p[f"line{i}_double"]
    cover = overlap(maths, away, p[f"line{i}_half"], g.wide) * p[f"line{i}_paint"]
    period = p[f"line{i}_period"]
    beat = (g.along + p[f"line{i}_phase"]) / period
    place = (beat - maths.floor(beat) - 0.5) * period
    # A footprint longer than the period sees the average of paint and gap.
    dash = overlap(maths, place, p[f"line{i}_dash"], maths.minimum(g.long, period) + 0.02)
    return (cover * dash,)


def _worn(maths: Maths, p: Parameters, g: Ground, share: Array) -> tuple[Array]:
    """What traffic has left of the paint."""
    worn = noise(maths, g.along * 2.3, g.across * 9.0, p["seed"] + 4)
    return (share * (1 - p["worn"] * worn),)


def _shadows(maths: Maths, p: Parameters, g: Ground) -> Array:
    """Light left on the ground: tree shadows from one side, bridges, shadows under vehicles."""
    (dark,) = maths.choose(p["leaf_gap"] < 2, partial(_leaves, maths, p, g), (0.0,))
    bridge = overlap(maths, g.along - p["bridge"], p["bridge_half"], g.long + 0.5)
    shade_ = maths.maximum(dark, bridge * p["bridge_depth"])
    for i in range(VEHICLES):
        (under,) = maths.choose(p[f"car{i}_on"] > 0, partial(_under, maths, p, g, i), (0.0,))
        shade_ = maths.maximum(shade_, under)
    return 1 - shade_


def _leaves(maths: Maths, p: Parameters, g: Ground) -> tuple[Array]:
    """Light that trees at the roadside take away."""
    leaves = noise(maths, g.along * p["leaf_rate"], g.across * 0.45, p["seed"] + 5)
    twigs = noise(maths, g.along * 2.1, g.across * 2.4, p["seed"] + 6)
    reach = ramp(maths, (p["leaf_reach"] - g.across) * p["leaf_side"], 3.0)
    dark = ramp(maths, leaves + 0.35 * twigs - p["leaf_gap"], 0.06 + 0.02 * g.wide) * reach
    return (dark * p["leaf_depth"],)


def _under(maths: Maths, p: Parameters, g: Ground, i: int) -> tuple[Array]:
    """Light that vehicle `i` takes away from the ground around it."""
    y_here = (g.x - p[f"car{i}_x"]) * p[f"car{i}_slope"] + p[f"car{i}_y"]
    road_y, _ = centre(p, g.x)
    aside = g.across + road_y - y_here
    under = overlap(maths, aside - p["sun_side"], p[f"car{i}_half"] + 0.1, g.wide + 0.3)
    ahead = g.x - p[f"car{i}_x"] - 0.5 * p[f"car{i}_length"]
    under = under * overlap(maths, ahead, 0.5 * p[f"car{i}_length"] + 0.4, g.long + 0.3)
    return (under * 0.65 * p[f"car{i}_on"],)


def _sky(maths: Maths, p: Parameters, rays: Rays, detail: Detail) -> Colour:
    up = maths.maximum(p["pitch"] - rays.m, 0.0)
    colour = _mixed(_named(p, "haze"), _named(p, "zenith"), clip01(maths, up * 3.0))
    if not detail.textures:
        return colour
    cloud = noise(maths, rays.n * 4.0, up * 12.0, p["seed"] + 7) * 0.65
    cloud = cloud + 0.35 * noise(maths, rays.n * 13.0, up * 40.0, p["seed"] + 8)
    cover = ramp(maths, cloud - p["cloud_gap"], 0.25)
    colour = _mixed(colour, _named(p, "cloud"), cover)
    bearing = rays.n + p["bearing"]
    ridge = p["hills"] * noise(maths, bearing * 5.0, bearing * 0, p["seed"] + 9)
    ridge = ridge + p["bushes"] * noise(maths, bearing * 40.0, bearing * 0, p["seed"] + 10)
    spots = noise(maths, bearing * 90.0, rays.m * 120.0, p["seed"] + 11)
    hill = _grey(_named(p, "hill"), 0.7 + 0.6 * spots)
    return _mixed(colour, hill, ramp(maths, ridge - up, rays.pixel))


def _wall(maths: Maths, p: Parameters, rays: Rays, g: Ground, below: Colour, i: int) -> Colour:
    """A barrier, hedge or row of trees along the road; it has no thickness."""
    side = p[f"wall{i}_side"]
    gap = (p["c0"] + p[f"wall{i}_across"]) * side
    turn = (rays.n - p["c1"]) * side
    square = turn * turn - 4 * p["c2"] * side * gap
    closing = turn + maths.sqrt(maths.maximum(square, 0.0))
    ahead = (square > 0) & (closing > 2 * gap / FARTHEST)
    x = 2 * gap / maths.maximum(closing, 2 * gap / FARTHEST)
    # The cubic term, by one step of Newton's method.
    miss = rays.n * x - (
        p["c0"] + p[f"wall{i}_across"] + x * (p["c1"] + x * (p["c2"] + x * p["c3"]))
    )
    rate = maths.maximum((rays.n - p["c1"] - x * (2 * p["c2"] + 3 * x * p["c3"])) * side, 1e-3)
    better = x - miss * side / rate
    x = maths.minimum(maths.maximum(better, 0.7 * x), 1.4 * x)
    nearer = ahead & (x < maths.where(g.hit, g.x + 0.1, FARTHEST))
    return maths.choose(nearer, partial(_wall_at, maths, p, rays, x, below, i), below)


def _wall_at(maths: Maths, p: Parameters, rays: Rays, x: Array, below: Colour, i: int) -> Colour:
    """Wall `i`, met x metres ahead, over what is `below`."""
    foot = ground_height(p, x, x * rays.n)
    high = foot - rays.m * x
    along = p["along"] + x
    rough = noise(maths, along * 0.35, high * 0.5 + i * 7.0, p["seed"] + 12)
    fine = noise(maths, along * 3.0, high * 3.0, p["seed"] + 13)
    top = p[f"wall{i}_top"] * (1 - p[f"wall{i}_rough"] * rough)
    soft = x * rays.pixel + 0.02 + 0.3 * p[f"wall{i}_rough"]
    share = ramp(maths, top - high, soft) * ramp(maths, high - p[f"wall{i}_bottom"], soft)
    near = 1 / (1 + 0.05 * x)
    tone = 0.75 + 0.25 * clip01(maths, high / maths.maximum(top, 0.1))
    tone = tone + (fine - 0.5) * (0.3 + p[f"wall{i}_rough"]) * near
    tone = tone + (rough - 0.5) * 0.7 * p[f"wall{i}_rough"]
    colour = _hazed(maths, p, _grey(_named(p, f"wall{i}"), tone), x)
    return _mixed(below, colour, share)


def _vehicle(maths: Maths, p: Parameters, rays: Rays, g: Ground, below: Colour, i: int) -> Colour:
    """A box with windows, lights and wheels: its end towards us, and the side we can see."""
    x0, y0, slope = p[f"car{i}_x"], p[f"car{i}_y"], p[f"car{i}_slope"]
    half, tall, length = p[f"car{i}_half"], p[f"car{i}_tall"], p[f"car{i}_length"]
    # The side face first, the end face over it.
    towards = maths.where(y0 > 0, -1.0, 1.0)
    face = y0 + towards * half
    turn = rays.n - slope
    turn = maths.where((turn < 1e-3) & (turn > -1e-3), 1e-3, turn)
    x = (face - slope * x0) / turn
    inside = (x > x0) & (x < x0 + length)
    x = maths.minimum(maths.maximum(x, _NEAREST), FARTHEST)
    high = (ground_height(p, x, x * rays.n) - rays.m * x) / tall
    soft = x * rays.pixel / tall
    side = inside & (high > -0.5 * soft) & (high < 1 + 0.5 * soft)

    def with_side() -> Colour:
        colour, share = _body(maths, p, i, (x - x0) / length * 2 - 1, high, soft, 0.0)
        return _mixed(below, _hazed(maths, p, _grey(colour, 0.75), x), share)

    return _vehicle_end(maths, p, rays, maths.choose(side, with_side, below), i)


def _vehicle_end(maths: Maths, p: Parameters, rays: Rays, below: Colour, i: int) -> Colour:
    """The end of vehicle `i` that is towards us; not in view when it is beside or behind us."""
    half, tall = p[f"car{i}_half"], p[f"car{i}_tall"]
    x = maths.maximum(p[f"car{i}_x"], _NEAREST)
    span = (rays.n * x - p[f"car{i}_y"]) / half
    off = maths.maximum(span, -span)
    high = (ground_height(p, x, x * rays.n) - rays.m * x) / tall
    soft = x * rays.pixel
    seen = (off < 1 + 0.5 * soft / half) & (high > -0.5 * soft / tall)
    seen = seen & (high < 1 + 0.5 * soft / tall) & (p[f"car{i}_x"] > _NEAREST)

    def with_end() -> Colour:
        colour, share = _body(maths, p, i, span, high, soft / tall, 1.0)
        share = share * ramp(maths, 1 - off, soft / half) * p[f"car{i}_on"]
        return _mixed(below, _hazed(maths, p, colour, x), share)

    return maths.choose(seen, with_end, below)


def _body(
    maths: Maths, p: Parameters, i: int, span: Array, high: Array, soft: Array, end: float
) -> tuple[Colour, Array]:
    """Colour and cover at `span` (-1 to 1 across the face) and `high` (0 ground, 1 roof)."""
    off = maths.maximum(span, -span)
    cabin = ramp(maths, high - 0.56, soft + 0.02)
    # Passenger cars narrow above the waist, boxes do not.
    inset = cabin * p[f"car{i}_glass"] * (high - 0.5) * (0.55 if end else 0.9)
    cover = ramp(maths, 1 - high, soft) * ramp(maths, 1 - inset - off, soft + 0.02)
    wheel = ramp(maths, off - 0.62, 0.08) * ramp(maths, 0.9 - off, 0.08)
    cover = cover * maths.maximum(ramp(maths, high - 0.14, soft), wheel * ramp(maths, high, soft))
    colour: Colour = _grey(_named(p, f"car{i}"), 0.8 + 0.25 * clip01(maths, high))
    glass = cabin * ramp(maths, 0.92 - high, soft + 0.02) * ramp(maths, 0.84 - inset - off, 0.06)
    colour = _mixed(colour, _named(p, "glass"), glass * p[f"car{i}_glass"])
    if end:
        lamp = ramp(maths, off - 0.7, 0.05) * overlap(maths, high - 0.5, 0.07, soft + 0.01)
        colour = _mixed(colour, _named(p, f"lamp{i}"), lamp)
        plate = ramp(maths, 0.2 - off, 0.05) * overlap(maths, high - 0.38, 0.05, soft + 0.01)
        colour = _mixed(colour, _named(p, "white"), plate * 0.8)
    low = ramp(maths, 0.2 - high, soft + 0.03)
    return _grey(colour, 1 - 0.8 * low), cover
