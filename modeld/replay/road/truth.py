"""What is really there: the answers a perfect driving network would give for a moment.

Everything is in the calibrated frame of the camera as it believes to be mounted (x forward,
y right, z down, metres, origin at the camera), on the grids of `modeld.constants`.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modeld.constants import LEAD_T_IDXS, LEAD_T_OFFSETS, T_IDXS, X_IDXS
from modeld.replay.road.drive import ACCELERATION_DECAY, Moment
from modeld.replay.road.scene import LINES, Floats, Scene
from modeld.replay.road.shading import ground_height

Booleans = npt.NDArray[np.bool_]

# Beyond this slope to the side "x metres ahead" stops meaning much.
_STEEPEST = 1.2
_FARTHEST_ASIDE = 60.0


@dataclass(frozen=True, slots=True)
class Truth:
    """Arrays over moments (n, ...).

    lane_lines (n, 4, 33, 2) and road_edges (n, 2, 33, 2) hold y, z; `painted` (n, 4) says which
    lines are there; `known` (n, 33) up to where the geometry is meant. plan (n, 33, 15) has
    position, velocity, acceleration, Euler angles and their rates. lead (n, 3, 6, 4) has x, y,
    v, a; `lead_there` (n, 3). pose (n, 6) is velocity and rotation rate. road_transform (n, 6)
    is the road below the camera and its angles. `curvature` (n,) is of the path at the car.
    """

    lane_lines: Floats
    painted: Booleans
    road_edges: Floats
    known: Booleans
    plan: Floats
    lead: Floats
    lead_there: Booleans
    pose: Floats
    road_transform: Floats
    curvature: Floats


def truth_of(moment: Moment) -> Truth:
    """The truth about each drive of a moment."""
    lines, painted = _lane_lines(moment)
    slope = _slope(moment.scene, X_IDXS)
    middle = _centre(moment.scene, X_IDXS)
    known = np.logical_and.accumulate(
        (np.abs(slope) < _STEEPEST) & (np.abs(middle) < _FARTHEST_ASIDE), axis=1
    )
    edges = np.stack(
        [_line(moment.scene, moment.scene[name]) for name in ("edge_left", "edge_right")], 1
    )
    plan = plan_of(moment, T_IDXS)
    lead, there = _leads(moment)
    road = np.zeros((len(moment.speed), 6), np.float32)
    road[:, 2] = moment.scene["height"]
    road[:, 3], road[:, 4] = moment.scene["roll"], moment.scene["pitch"]
    speed = np.maximum(moment.speed, 1)
    return Truth(
        lane_lines=lines,
        painted=painted,
        road_edges=edges.astype(np.float32),
        known=known,
        plan=plan,
        lead=lead,
        lead_there=there,
        pose=np.concatenate([plan[:, 0, 3:6], plan[:, 0, 12:15]], axis=1),
        road_transform=road,
        curvature=(plan[:, 0, 14] / speed).astype(np.float32),
    )


def _column(value: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    return value.astype(np.float64)[:, None]


def _centre(scene: Scene, x: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    c0, c1, c2, c3 = (_column(scene[f"c{i}"]) for i in range(4))
    y: npt.NDArray[np.float64] = c0 + x * (c1 + x * (c2 + x * c3))
    return y


def _slope(scene: Scene, x: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    c1, c2, c3 = (_column(scene[f"c{i}"]) for i in range(1, 4))
    slope: npt.NDArray[np.float64] = c1 + x * (2 * c2 + 3 * x * c3)
    return slope


def _line(scene: Scene, across: Floats) -> npt.NDArray[np.float64]:
    """(n, 33, 2): y and z of the line `across` metres right of the first lane's middle."""
    y = _centre(scene, X_IDXS) + _column(across) * np.sqrt(1 + _slope(scene, X_IDXS) ** 2)
    columns = {name: _column(scene[name]) for name in ("height", "pitch", "roll", "crest")}
    return np.stack([y, ground_height(columns, X_IDXS, y)], axis=-1)


def _lane_lines(moment: Moment) -> tuple[Floats, Booleans]:
    """The four lines around the lane that the car is in; also where they are not painted."""
    scene = moment.scene
    width = scene["lane_width"]
    lane = np.rint(moment.offset / width)
    lines, painted = [], []
    for i in range(4):
        place = lane + (i - 1.5)
        lines.append(_line(scene, place * width))
        slot = np.rint(place + (LINES - 1) / 2).astype(int)
        paint = np.stack([scene[f"line{j}_paint"] for j in range(LINES)], 1)
        inside = (slot >= 0) & (slot < LINES)
        found = np.take_along_axis(paint, np.clip(slot, 0, LINES - 1)[:, None], 1)[:, 0]
        painted.append(inside & (found > 0))
    return np.stack(lines, 1).astype(np.float32), np.stack(painted, 1)


def plan_of(moment: Moment, times: npt.NDArray[np.floating]) -> Floats:
    """(n, len(times), 15): the path that the car will drive; `times` start at 0 and rise."""
    t = times[None, :]
    start, accel = _column(moment.speed), _column(moment.acceleration)
    fade = np.exp(-t / ACCELERATION_DECAY)
    speed = start + accel * ACCELERATION_DECAY * (1 - fade)
    # Once it stands it stands.
    moving = np.logical_and.accumulate(speed > 0, axis=1)
    speed, accel = speed * moving, accel * fade * moving
    scene = moment.scene
    spring, spring_rate, spring_pull = _spring(moment, t)
    steps = np.diff(times)[None, :]
    arc = _integral(speed, steps)
    slope = _slope(scene, arc) + spring_rate / np.maximum(speed, 3)
    yaw = np.arctan(slope)
    x = _integral(speed * np.cos(yaw), steps)
    side = spring * np.sqrt(1 + _slope(scene, x) ** 2)
    y = _centre(scene, x) + side
    bend = 2 * _column(scene["c2"]) + 6 * _column(scene["c3"]) * x
    yaw_rate = speed * bend + spring_pull / np.maximum(speed, 3)
    fall = _column(scene["pitch"]) + _column(scene["crest"]) * x
    fall_rate = _column(scene["crest"]) * speed
    columns = {name: _column(scene[name]) for name in ("height", "pitch", "roll", "crest")}
    z = ground_height(columns, x, y) - columns["height"] - columns["roll"] * y
    zero = np.zeros_like(x)
    plan = np.stack(
        [
            x, y, z,
            speed * np.cos(yaw), speed * np.sin(yaw), speed * fall,
            accel * np.cos(yaw) - speed * yaw_rate * np.sin(yaw),
            accel * np.sin(yaw) + speed * yaw_rate * np.cos(yaw),
            zero,
            zero, -fall, yaw,
            zero, -fall_rate, yaw_rate,
        ],
        axis=-1,
    )  # fmt: skip
    return plan.astype(np.float32)


def _integral(
    rate: npt.NDArray[np.float64], steps: npt.NDArray[np.floating]
) -> npt.NDArray[np.float64]:
    """Trapezoids, starting at 0."""
    middle = 0.5 * (rate[:, 1:] + rate[:, :-1]) * steps
    return np.concatenate([np.zeros((len(rate), 1)), np.cumsum(middle, axis=1)], axis=1)


def _spring(moment: Moment, t: npt.NDArray[np.floating]) -> tuple[npt.NDArray[np.float64], ...]:
    """Offset from the first lane's middle over time, its rate and its second derivative."""
    away = _column(moment.offset) - _column(moment.target)
    spring = _column(moment.steer_rate)
    rise = _column(moment.offset_rate) + spring * away
    fade = np.exp(-spring * t)
    place = (away + rise * t) * fade
    rate = (rise - spring * (away + rise * t)) * fade
    pull = -spring * rate - spring * rise * fade
    return place + _column(moment.target), rate, pull


def _leads(moment: Moment) -> tuple[Floats, Booleans]:
    """The lead's course on LEAD_T_IDXS, three times; whether it is still ahead at each offset."""
    t = np.asarray(LEAD_T_IDXS)[None, :]
    start, accel = _column(moment.lead_speed), _column(moment.lead_acceleration)
    fade = np.exp(-t / 4)
    speed = np.maximum(start + accel * 4 * (1 - fade), 0)
    travelled = np.maximum(start * t + accel * 4 * (t - 4 * (1 - fade)), 0)
    there = moment.has_lead
    x = np.where(there[:, None], _column(moment.lead_x) + travelled, 0)
    y = _column(moment.lead_y) + _centre(moment.scene, x) - _centre(moment.scene, x[:, :1])
    course = np.stack([x, y, speed, accel * fade], axis=-1).astype(np.float32)
    lead = np.repeat(course[:, None], len(LEAD_T_OFFSETS), axis=1)
    return lead, np.repeat(there[:, None], len(LEAD_T_OFFSETS), axis=1)
