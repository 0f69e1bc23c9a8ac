"""The flat output vector of a driving network → named arrays.

Heads are found by slices that come with the network. A head is a mixture density (mean and
log standard deviation, with several weighted hypotheses in older networks), a set of
probabilities, or a choice; everything else is passed through raw.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modeld.constants import (
    DESIRE_LEN,
    DESIRE_PREDICTIONS,
    IDX_N,
    LANE_LINES,
    LEAD_HYPOTHESES,
    LEAD_STEPS,
    LEAD_WIDTH,
    LEADS,
    META_LAYOUTS,
    PLAN_HYPOTHESES,
    PLAN_WIDTH,
    ROAD_EDGES,
    Desire,
)
from modeld.errors import ModeldError

Array = npt.NDArray[np.float32]

# exp of more overflows float16 and says nothing a log of 11 does not.
_EXP_LIMIT = np.float32(11)


def safe_exp(x: Array) -> Array:
    """exp(min(x, 11)), elementwise."""
    result: Array = np.exp(np.minimum(x, _EXP_LIMIT))
    return result


def sigmoid(x: Array) -> Array:
    """1 / (1 + safe_exp(-x)), elementwise."""
    return np.float32(1) / (np.float32(1) + safe_exp(-x))


def softmax(x: Array, axis: int = -1) -> Array:
    """Probabilities that sum to one along `axis`."""
    weights = safe_exp(x - np.maximum.reduce(x, axis=axis, keepdims=True))
    total: Array = np.add.reduce(weights, axis=axis, keepdims=True)
    return weights / total


class _Readings:
    """A vector and what heads may take its elements for, worked out for all of them at once.

    The arrays stay where they are, so heads that only look at a part of one do so once for all
    turns: small calls of numpy cost as much as large ones, and a turn's are made on cold caches.
    """

    def __init__(self, size: int) -> None:
        self.raw, self.exps, self.chances = (np.zeros(size, np.float32) for _ in range(3))

    def read(self, vector: Array) -> None:
        np.copyto(self.raw, vector.reshape(self.raw.size))
        np.copyto(self.exps, safe_exp(self.raw))
        np.copyto(self.chances, sigmoid(self.raw))


@dataclass(frozen=True, slots=True)
class _Gaussian:
    """Means then log standard deviations of an array of `shape`."""

    name: str
    shape: tuple[int, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        return (2 * int(np.prod(self.shape)),)

    def view(self, whole: _Readings, where: slice, outputs: dict[str, Array]) -> None:
        middle = (where.start + where.stop) // 2
        outputs[self.name] = whole.raw[where.start : middle].reshape(self.shape)
        outputs[f"{self.name}_stds"] = whole.exps[middle : where.stop].reshape(self.shape)


@dataclass(frozen=True, slots=True)
class _Mixture:
    """`hypotheses` rows, each a Gaussian of `shape` and one logit per selection.

    Selection k takes the hypothesis whose k-th weight (a softmax over hypotheses) is greatest.
    With one selection the hypotheses are also ordered by weight, best first.
    """

    name: str
    shape: tuple[int, ...]
    hypotheses: int
    selections: int

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.hypotheses * (2 * int(np.prod(self.shape)) + self.selections),)

    def compute(self, whole: _Readings, where: slice, outputs: dict[str, Array]) -> None:
        rows = whole.raw[where].reshape(self.hypotheses, -1)
        n = (rows.shape[1] - self.selections) // 2
        weights = softmax(rows[:, 2 * n :], axis=0)
        means = rows[:, :n].reshape(self.hypotheses, *self.shape)
        exps = whole.exps[where].reshape(self.hypotheses, -1)
        stds = exps[:, n : 2 * n].reshape(self.hypotheses, *self.shape)
        if self.selections == 1:
            order = np.argsort(-weights[:, 0], kind="stable")
            weights, means, stds = weights[order], means[order], stds[order]
            best: int | npt.NDArray[np.intp] = 0
        else:
            best = weights.argmax(axis=0)
        outputs[self.name], outputs[f"{self.name}_stds"] = means[best], stds[best]
        outputs[f"{self.name}_weights"] = weights
        outputs[f"{self.name}_hypotheses"] = means
        outputs[f"{self.name}_stds_hypotheses"] = stds


@dataclass(frozen=True, slots=True)
class _Probabilities:
    """Independent probabilities, one logit each; `widths` are those that exist."""

    name: str
    widths: tuple[int, ...]

    def view(self, whole: _Readings, where: slice, outputs: dict[str, Array]) -> None:
        outputs[self.name] = whole.chances[where]


@dataclass(frozen=True, slots=True)
class _Choice:
    """Exclusive probabilities along the last axis of `shape`."""

    name: str
    shape: tuple[int, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        return (int(np.prod(self.shape)),)

    def compute(self, whole: _Readings, where: slice, outputs: dict[str, Array]) -> None:
        outputs[self.name] = softmax(whole.raw[where].reshape(self.shape))


_Viewed = _Gaussian | _Probabilities
_Computed = _Mixture | _Choice
_Head = _Viewed | _Computed

_PLAN = (IDX_N, PLAN_WIDTH)
_LEAD = (LEAD_STEPS, LEAD_WIDTH)

# Every head that a message needs, each in the forms that networks have had.
_REQUIRED: tuple[tuple[_Head, ...], ...] = (
    (_Gaussian("plan", _PLAN), _Mixture("plan", _PLAN, PLAN_HYPOTHESES, 1)),
    (_Gaussian("lane_lines", (LANE_LINES, IDX_N, 2)),),
    (_Probabilities("lane_lines_prob", (2 * LANE_LINES,)),),
    (_Gaussian("road_edges", (ROAD_EDGES, IDX_N, 2)),),
    (_Gaussian("lead", (LEADS, *_LEAD)), _Mixture("lead", _LEAD, LEAD_HYPOTHESES, LEADS)),
    (_Probabilities("lead_prob", (LEADS,)),),
    (_Choice("desire_pred", (DESIRE_PREDICTIONS, DESIRE_LEN)),),
    (_Probabilities("meta", tuple(META_LAYOUTS)),),
    (_Gaussian("pose", (6,)),),
    (_Gaussian("wide_from_device_euler", (3,)),),
    (_Gaussian("road_transform", (6,)),),
)
# Heads that only some networks have: the present manoeuvre, commands, and the pose in simulation.
_OPTIONAL: tuple[tuple[_Head, ...], ...] = (
    (_Choice("desire_state", (DESIRE_LEN,)),),
    (_Gaussian("action", (2,)),),
    (_Gaussian("desired_curvature", (1,)),),
    (_Gaussian("sim_pose", (6,)),),
)

_NO_MANOEUVRE = np.eye(DESIRE_LEN, dtype=np.float32)[Desire.NONE]


class OutputParser:
    """Parses vectors of one network. Slices are checked once, here, so that `parse` cannot fail.

    `slices` maps head names to (start, stop) below `size`, the length of the vector. Raises
    ModeldError naming every head that the messages need and the network lacks, or the head whose
    width fits no known form. A network without `desire_state` is one that sees no manoeuvre.
    """

    def __init__(self, slices: Mapping[str, tuple[int, int]], size: int) -> None:
        for name, (start, stop) in slices.items():
            if not 0 <= start < stop <= size:
                raise ModeldError(
                    f"output slice {name} is [{start}, {stop}) of a vector of {size}; "
                    "build the artifact again from a model with valid slices"
                )
        missing = [forms[0].name for forms in _REQUIRED if forms[0].name not in slices]
        if missing:
            raise ModeldError(
                f"the model has no output {', '.join(missing)}; "
                "the messages need all of them, so run a driving model that has them"
            )
        known = {f[0].name: f for f in _REQUIRED + _OPTIONAL if f[0].name in slices}
        heads = {name: _form(forms, slices[name]) for name, forms in known.items()}
        self._whole = _Readings(size)
        self._views: dict[str, Array] = {"desire_state": _NO_MANOEUVRE}
        self._computed: list[tuple[slice, _Computed]] = []
        for name, ends in slices.items():
            where, head = slice(*ends), heads.get(name)
            if head is None:
                self._views[name] = self._whole.raw[where]
            elif isinstance(head, _Viewed):
                head.view(self._whole, where, self._views)
            else:
                self._computed.append((where, head))

    def parse(self, vector: Array) -> dict[str, Array]:
        """Named arrays of a float32 vector of `size` elements (any shape), no batch axis.

        Gaussian heads give `name` and `name_stds`; mixtures also `name_weights`,
        `name_hypotheses` and `name_stds_hypotheses`; unknown heads their raw values. The arrays
        are valid until the next call and are only to be read.
        """
        self._whole.read(vector)
        outputs = dict(self._views)
        for where, head in self._computed:
            head.compute(self._whole, where, outputs)
        return outputs


def _form(forms: tuple[_Head, ...], where: tuple[int, int]) -> _Head:
    width = where[1] - where[0]
    for head in forms:
        if width in head.widths:
            return head
    expected = [str(known) for head in forms for known in head.widths]
    raise ModeldError(
        f"output {forms[0].name} has {width} elements, expected {' or '.join(expected)}; "
        "build the artifact from a model whose slices fit its outputs"
    )
