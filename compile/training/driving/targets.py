"""What the network should have said: the truth of a moment in the order of its outputs.

Three kinds of target, each a fixed list of places in the output vector: numbers with a standard
deviation (Laplace), yes-or-no (logistic) and one-of-eight (softmax). A weight of 0 leaves a
target out where nothing is true or known.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compile.reference.heads import HEADS, output_slices, scale_and_prior
from modeld.constants import META_T_IDXS, T_IDXS
from modeld.replay.road.drive import Moment
from modeld.replay.road.truth import Truth, plan_of, truth_of

Floats = npt.NDArray[np.float32]

# Head → weight in the loss. Lines and path are what the network is for. The pose has a large one:
# speed is the hardest to see, and path, lead and action all depend on it.
NUMBERS = {
    "lane_lines": 2.0, "road_edges": 0.4, "pose": 4.0, "wide_from_device_euler": 0.05,
    "road_transform": 0.2, "plan": 1.5, "lead": 4.0, "action": 2.0,
}  # fmt: skip
# How the pose's weight is shared out: five sixths to the speed along the road.
_POSE_SHARES = np.array([5, 0.2, 0.2, 0.2, 0.2, 0.2], np.float32)
CHANCES = {"lane_lines_prob": 1.5, "meta": 0.05, "lead_prob": 0.4}
CHOICES = {"desire_pred": 0.05, "desire_state": 0.1}

# Head → the deviation of its first place that is rewarded up to, in m/s and m/s².
_SHARPEST = {"pose": 0.2, "action": 0.02}

# Metres at which a lead counts once.
_LEAD_DISTANCE = 30.0

# Times at which the meta head speaks: disengagements, then pedal presses and blinkers.
_HARD_BRAKING = (3.0, 4.0, 5.0)  # m/s²


def places(head: str) -> tuple[slice, slice]:
    """Where means and log standard deviations of a `NUMBERS` head lie in the outputs."""
    whole = output_slices()[head]
    half = (whole.stop - whole.start) // 2
    return slice(whole.start, whole.start + half), slice(whole.start + half, whole.stop)


NUMBER_WIDTH = sum(places(head)[0].stop - places(head)[0].start for head in NUMBERS)
CHANCE_WIDTH = sum(head.width for head in HEADS if head.name in CHANCES)
CHOICE_WIDTH = sum(head.width for head in HEADS if head.name in CHOICES)


def target_spans() -> dict[str, slice]:
    """Where each head's numbers lie in a batch's `numbers`."""
    spans, start = {}, 0
    for head in NUMBERS:
        mean, _ = places(head)
        spans[head] = slice(start, start + mean.stop - mean.start)
        start = spans[head].stop
    return spans


def least_log_std() -> Floats:
    """(NUMBER_WIDTH,): deviations below this are not rewarded further, a fifth of the scale.

    The prior's is a tenth. Many places (heights, the path's first moments) hardly ever differ from
    their mean; were a sharper claim rewarded, the slightest noise there would cost more than all
    that the picture tells, and training would shut the network's eyes.

    Speed and lateral acceleration are another matter. Readers divide the latter by the square of
    the speed: of a slow car it is a hundredth of the scale, and that is the whole answer.
    """
    _, prior = scale_and_prior()
    least = np.concatenate([prior[places(head)[1]] for head in NUMBERS]) + np.float32(np.log(2))
    for head, deviation in _SHARPEST.items():
        least[target_spans()[head].start] = np.log(deviation)
    return least


@dataclass(frozen=True, slots=True)
class Targets:
    """Arrays over moments (n, width): numbers and their weights, chances, choices (one-hot)."""

    numbers: Floats
    weights: Floats
    chances: Floats
    choices: Floats


def targets_of(moment: Moment, action_t: Floats, wide_error: Floats) -> Targets:
    """Targets for the inputs `action_t` (n, 2) seconds and the wide camera's error (n, 3)."""
    truth = truth_of(moment)
    count = len(moment.speed)
    known = truth.known.astype(np.float32)
    lines = known[:, None, :, None] * truth.painted[:, :, None, None]
    there = truth.lead_there.astype(np.float32)
    one = np.ones((count, 1), np.float32)
    values = {
        "lane_lines": (truth.lane_lines, np.broadcast_to(lines, truth.lane_lines.shape)),
        "road_edges": (
            truth.road_edges,
            np.broadcast_to(known[:, None, :, None], truth.road_edges.shape),
        ),
        "pose": (truth.pose, one * _POSE_SHARES),
        "wide_from_device_euler": (wide_error, np.broadcast_to(one, wide_error.shape)),
        "road_transform": (truth.road_transform, np.broadcast_to(one, truth.road_transform.shape)),
        "plan": (truth.plan, np.broadcast_to(_plan_weight(truth), truth.plan.shape)),
        "lead": (truth.lead, _lead_weight(truth)),
        "action": (_action(moment, action_t), np.ones((count, 2), np.float32)),
    }
    numbers, weights = [], []
    for head, share in NUMBERS.items():
        value, weight = (side.reshape(count, -1) for side in values[head])
        numbers.append(value)
        weights.append(weight * np.float32(share / value.shape[1]))
    return Targets(
        numbers=np.concatenate(numbers, 1).astype(np.float32),
        weights=np.concatenate(weights, 1).astype(np.float32),
        chances=np.concatenate([_line_chances(truth), _meta(moment, truth), there], 1),
        choices=np.concatenate([_desires_ahead(moment), _one_hot(moment.desire)], 1),
    )


def _plan_weight(truth: Truth) -> Floats:
    """(n, 33, 1): the path counts as long as it leads forward."""
    forward = np.abs(truth.plan[:, :, 11]) < 1.2
    return np.logical_and.accumulate(forward, axis=1)[..., None].astype(np.float32)


def _lead_weight(truth: Truth) -> Floats:
    """(n, 3, 6, 4): a metre matters more close by; what is beyond 60 m counts half."""
    nearness = np.clip(_LEAD_DISTANCE / np.maximum(truth.lead[:, :, :1, :1], 1), 0.5, 3)
    return np.broadcast_to(nearness * truth.lead_there[:, :, None, None], truth.lead.shape)


def _line_chances(truth: Truth) -> Floats:
    # Two entries per line; readers use the second.
    return np.repeat(truth.painted, 2, axis=1).astype(np.float32)


def _action(moment: Moment, action_t: Floats) -> Floats:
    """(n, 2): curvature times speed squared (at least 1), and acceleration, when acted upon."""
    fine = np.linspace(0, 2, 41)
    plan = plan_of(moment, fine)
    rows = np.arange(len(moment.speed))
    lateral = np.rint(action_t[:, 0] / 0.05).astype(int).clip(0, 40)
    braking = np.rint(action_t[:, 1] / 0.05).astype(int).clip(0, 40)
    speed = np.maximum(moment.speed, 1)
    curvature = plan[rows, lateral, 14] / speed
    ahead = plan[rows, braking, 6] * np.cos(plan[rows, braking, 11])
    side = plan[rows, braking, 7] * np.sin(plan[rows, braking, 11])
    return np.stack([curvature * speed**2, ahead + side], 1).astype(np.float32)


def _meta(moment: Moment, truth: Truth) -> Floats:
    """(n, 55): engaged always, never disengaging; hard braking, pedals and blinkers as driven."""
    meta = np.zeros((len(moment.speed), 55), np.float32)
    meta[:, 0] = 1
    accel = truth.plan[:, :, 6]
    for k, limit in enumerate(_HARD_BRAKING):
        for j, until in enumerate(META_T_IDXS):
            meta[:, 4 + k + 6 * j] = (accel[:, until >= T_IDXS] < -limit).any(axis=1)
    for j, when in enumerate((0.0, *META_T_IDXS)):
        now = accel[:, np.argmin(np.abs(T_IDXS - when))]
        meta[:, 31 + 4 * j], meta[:, 32 + 4 * j] = now > 0.3, now < -0.8
        if when <= 4:
            meta[:, 33 + 4 * j], meta[:, 34 + 4 * j] = moment.desire == 3, moment.desire == 4
    return meta


def _one_hot(desire: Floats) -> Floats:
    shares: Floats = np.eye(8, dtype=np.float32)[desire.astype(int)]
    return shares


def _desires_ahead(moment: Moment) -> Floats:
    """(n, 32): at 2, 4, 6 and 8 s; a lane change is over after about four seconds."""
    now, none = _one_hot(moment.desire), _one_hot(np.zeros_like(moment.desire))
    return np.concatenate([now, none, none, none], axis=1)
