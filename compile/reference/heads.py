"""The output vector: where each head lies, and the smooth curves the network mixes.

Curves (lane lines, edges, plan, leads) are not predicted point by point: the network gives a few
coefficients per curve, a constant basis turns them into the 33 points. That keeps them smooth and
the last dense layer small. Every output is `raw * scale + prior`, so that raw values near zero
mean a straight empty road at 22 m/s, and a raw change of one is a plausible change.

Layout, widths and index tables: the driving models' metadata (N = 2580) as listed in
`modeld.constants`' sources; standard deviations are stored as logarithms.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compile.reference.topology import FEATURE

Array = npt.NDArray[np.float32]

POINTS = 33
CURVE_TERMS = 8
LEAD_TERMS = 3
LEAD_POINTS = 6
LEADS = 3
PLAN_COLUMNS = 15
LINES = 4
EDGES = 2

# 192 m and 10 s, denser near the car: index i is at (i / 32)^2.
SPACING = (np.arange(POINTS) / (POINTS - 1)) ** 2
X_IDXS = 192.0 * SPACING
T_IDXS = 10.0 * SPACING
LEAD_T_IDXS = np.arange(LEAD_POINTS) * 2.0

CAMERA_HEIGHT = 1.22  # metres above the road, the mount of a comma device
SPEED = 22.0  # m/s, middle of the range the network is for
LANE_WIDTH = 3.6


@dataclass(frozen=True, slots=True)
class Head:
    """A range of `outputs`. Curves: `rows` of (points, columns), means first, then log stds."""

    name: str
    width: int
    rows: int = 0
    points: int = 0
    columns: int = 0
    terms: int = 0

    @property
    def coefficients(self) -> int:
        """How many numbers the network gives for this head."""
        return self.rows * self.terms * self.columns if self.terms else self.width


HEADS = (
    Head("lane_lines", 528, 2 * LINES, POINTS, 2, CURVE_TERMS),
    Head("lane_lines_prob", 8),
    Head("road_edges", 264, 2 * EDGES, POINTS, 2, CURVE_TERMS),
    Head("meta", 55),
    Head("desire_pred", 32),
    Head("pose", 12),
    Head("wide_from_device_euler", 6),
    Head("road_transform", 12),
    Head("plan", 990, 2, POINTS, PLAN_COLUMNS, CURVE_TERMS),
    Head("lead", 144, 2 * LEADS, LEAD_POINTS, 4, LEAD_TERMS),
    Head("lead_prob", 3),
    Head("desire_state", 8),
    Head("action", 4),
)
PREDICTED = sum(head.width for head in HEADS)
COEFFICIENTS = sum(head.coefficients for head in HEADS)
PAD = 2
OUTPUTS = PREDICTED + FEATURE + PAD


def output_slices() -> dict[str, slice]:
    """Name to range of the flat vector, as models carry it: `pad` is counted from the end."""
    slices: dict[str, slice] = {}
    start = 0
    for head in HEADS:
        slices[head.name] = slice(start, start + head.width)
        start += head.width
    slices["hidden_state"] = slice(start, start + FEATURE)
    slices["pad"] = slice(-PAD, None)
    return slices


def basis(points: int, terms: int) -> Array:
    """Chebyshev polynomials over the index, (points, terms).

    In u = i / 32, distance and time go with u^2, so eight terms hold a cubic in either exactly.
    """
    position = np.linspace(-1.0, 1.0, points)
    return np.polynomial.chebyshev.chebvander(position, terms - 1).astype(np.float32)


def scale_and_prior() -> tuple[Array, Array]:
    """What raw values are multiplied by, and what is added: both (PREDICTED,)."""
    parts = [_affine(head) for head in HEADS]
    scale, prior = (np.concatenate(side) for side in zip(*parts, strict=True))
    return scale.astype(np.float32), prior.astype(np.float32)


def _affine(head: Head) -> tuple[Array, Array]:
    match head.name:
        case "lane_lines":
            return _lateral_curves((-1.5, -0.5, 0.5, 1.5))
        case "road_edges":
            return _lateral_curves((-2.0, 2.0))
        case "plan":
            return _plan()
        case "lead":
            return _leads()
        case "pose":
            return _gaussian((10.0, 0.5, 0.5, 0.02, 0.02, 0.05), (SPEED, 0, 0, 0, 0, 0))
        case "wide_from_device_euler":
            return _gaussian((0.02,) * 3, (0,) * 3)
        case "road_transform":
            return _gaussian((0.1,) * 3 + (0.02,) * 3, (0, 0, CAMERA_HEIGHT, 0, 0, 0))
        case "action":
            return _gaussian((1.0, 1.0), (0, 0))
        case "desire_state":
            return _logits(np.eye(1, head.width)[0] * 4)  # "none" is the usual desire
        case "desire_pred":
            return _logits(np.tile(np.eye(1, 8)[0] * 4, 4))
        case "meta":
            return _logits(np.full(head.width, -3.0))
        case _:
            return _logits(np.zeros(head.width))


def _logits(prior: npt.NDArray[np.floating]) -> tuple[Array, Array]:
    return np.full(prior.shape, 3.0, np.float32), prior.astype(np.float32)


def _gaussian(scale: tuple[float, ...], mean: tuple[float, ...]) -> tuple[Array, Array]:
    """Means and log stds of one row; a std starts at a tenth of what the mean moves by."""
    spread = np.asarray(scale)
    return (
        np.concatenate([spread, np.ones_like(spread)]).astype(np.float32),
        np.concatenate([np.asarray(mean), np.log(spread / 10)]).astype(np.float32),
    )


def _curves(scale: Array, mean: Array) -> tuple[Array, Array]:
    """As `_gaussian` for whole (rows, points, columns) arrays."""
    return (
        np.concatenate([scale.ravel(), np.ones(scale.size)]).astype(np.float32),
        np.concatenate([mean.ravel(), np.log(scale / 10).ravel()]).astype(np.float32),
    )


def _lateral_curves(lanes: tuple[float, ...]) -> tuple[Array, Array]:
    """Lines at `lanes` lane widths to the right, on the ground, (lines, 33, (y, z))."""
    mean = np.empty((len(lanes), POINTS, 2), np.float32)
    mean[..., 0] = np.asarray(lanes)[:, None] * LANE_WIDTH
    mean[..., 1] = CAMERA_HEIGHT
    # Sideways: half a metre at the car, bending away; up and down about a fourth of that.
    sideways = 0.5 + 0.06 * X_IDXS
    scale = np.stack([sideways, 0.1 + 0.015 * X_IDXS], axis=-1)
    return _curves(np.broadcast_to(scale, mean.shape).astype(np.float32), mean)


def _plan() -> tuple[Array, Array]:
    """Columns: position, velocity, acceleration, euler angles, their rates; (33, 15)."""
    mean = np.zeros((POINTS, PLAN_COLUMNS), np.float32)
    mean[:, 0], mean[:, 3] = SPEED * T_IDXS, SPEED
    time = T_IDXS[:, None]
    still = np.ones_like(time)
    angles = np.array([0.2, 0.3, 1.0])
    scale = np.concatenate(
        [
            0.1 + 10.0 * time,
            0.1 + 1.0 * time,
            0.1 + 0.3 * time,
            still * np.array([10.0, 0.5, 0.5]),
            still * np.array([1.0, 1.0, 0.3]),
            (0.005 + 0.05 * time) * angles,
            still * 0.05 * angles,
        ],
        axis=1,
    )
    return _curves(scale.astype(np.float32), mean)


def _leads() -> tuple[Array, Array]:
    """Columns: distance, lateral offset, speed, acceleration; (3, 6, 4)."""
    mean = np.zeros((LEADS, LEAD_POINTS, 4), np.float32)
    mean[..., 0], mean[..., 2] = 50.0, SPEED
    scale = np.broadcast_to(np.array([30.0, 2.0, 10.0, 1.0], np.float32), mean.shape)
    return _curves(scale, mean)
