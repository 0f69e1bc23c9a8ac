"""Training the driving network: paint, see, compare, correct, all in one captured step."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from math import log2
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import save
from tinygrad import Context, Tensor, TinyJit, dtypes
from tinygrad.nn.optim import AdamW, OptimizerGroup

from compile.reference.graph import assemble
from compile.reference.weights import Array, Weights, check, seeded
from compile.training.driving.beginning import fitted
from compile.training.driving.config import DrivingConfig, Phase
from compile.training.driving.data import BatchMaker
from compile.training.driving.features import FeatureCache, FrozenVision
from compile.training.driving.losses import (
    chance_loss,
    choice_loss,
    line_error,
    number_loss,
    speed_error,
)
from compile.training.driving.model import fits, is_policy, sequence_outputs, to_tensors, watched
from compile.training.driving.world import drive_images
from compile.training.history import History
from compile.training.loop import MODEL, WEIGHTS
from compile.training.matching import require_same_fields
from compile.training.optimizers import require_gradients
from compile.training.plots import Panel
from compile.training.schedule import Schedule
from compile.training.snapshot import Snapshot, restore, start, take
from compile.training.stepping import whole_step
from modeld.errors import ModeldError

_BETAS = (0.9, 0.98)
# What a step measures, in this order: the loss, its three parts, metres beside the lane lines,
# m/s of the car's own speed.
_MEASURED = ("loss", "numbers", "chances", "choices", "line_error", "speed_error")
# Where in the data a checkpoint is, and whether the run began with given weights.
_CONFIG, _STARTED_FROM = "config", "started_from"


def _beginning(config: DrivingConfig) -> dict[str, Array]:
    """Weights to begin with, whose output is no function of the picture yet.

    A random one is noise to the loss, and the cheapest way to less noise is to shut the rectifiers
    before it, for good. The same goes for what the memory adds.
    """
    topology, seed = config.topology, config.run.seed
    weights = fitted(topology, seed) if fits(topology) else seeded(topology, seed)
    weights["trunk.coefficients.weight"][:] = 0
    weights["attention.memory.weight"][:, topology.attention :] = 0
    return weights


class _Group(NamedTuple):
    """Weights that learn in the same phases and at the same rate."""

    policy: bool
    rate_factor: float


def _optimizer(
    weights: Mapping[str, Tensor], decay: float
) -> tuple[tuple[_Group, ...], OptimizerGroup]:
    """An AdamW for each group of weights, and the groups in the same order.

    Adam moves every weight by about the rate in a step, so a sum over thousands of inputs changes
    a hundred times as much as one over nine, and without normalisation nothing takes that back.
    So weights with many inputs move less and those with few move more (https://arxiv.org/abs/2203.03466).
    """
    members: dict[_Group, list[Tensor]] = {}
    for name, weight in weights.items():
        group = _Group(is_policy(name), rate_factor(name, weight.shape))
        members.setdefault(group, []).append(weight)
    groups = tuple(sorted(members))
    beta_1, beta_2 = _BETAS
    return groups, OptimizerGroup(
        *(
            AdamW(members[g], lr=0.0, b1=beta_1, b2=beta_2, weight_decay=decay, fused=False)
            for g in groups
        )
    )


def rate_factor(name: str, shape: Sequence[int]) -> float:
    """What the learning rate of a weight is multiplied with: 256 / inputs, to a power of two."""
    if len(shape) == 4:
        inputs = shape[1] * shape[2] * shape[3]
    elif name.endswith(".weight"):
        inputs = shape[0]
    else:
        return 1.0
    return float(2 ** round(min(max(log2(256 / inputs), -3), 2)))


class DrivingTrainer:
    """A run: weights, optimizer, drives, and the step as captured kernels, anew for each phase."""

    def __init__(
        self, config: DrivingConfig, features: Path, weights: Weights | None = None
    ) -> None:
        """Begin with `weights`, or with fitted ones from the configuration's seed.

        What frozen vision parts see is kept in the folder `features`. Raises ModeldError when the
        weights are of another size.
        """
        self.config, self.topology = config, config.topology
        self._started_from = None if weights is None else sha256(save(dict(weights))).hexdigest()
        if weights is not None:
            check(weights, self.topology)
        self.weights = to_tensors(_beginning(config) if weights is None else weights)
        self._groups, self.optimizer = _optimizer(self.weights, config.optimizer.weight_decay)
        start(self.weights, self.optimizer)
        self.step, self.history = 0, History()
        self._compute = getattr(dtypes, config.network.compute)
        self._phase: Phase | None = None
        self._cache = FeatureCache(features)
        self._captured: Callable[..., Tensor]
        self._paint: Callable[..., Tensor]
        self._vision: FrozenVision | None = None
        self._maker: BatchMaker
        # Inputs by number of the batch.
        self._kept: dict[int, list[Tensor]] = {}

    @property
    def steps(self) -> int:
        """How long the run is."""
        return self.config.steps

    def train_step(self) -> float:
        """Take one step; returns the loss of its batch before the step."""
        _, phase, first = self.config.phase_at(self.step)
        if phase is not self._phase:
            self._enter(phase)
        inputs = self._batch(phase, first)
        rate = Tensor([phase.schedule.rate_at(self.step - first)], dtype=dtypes.float32).realize()
        with Context(TRAINING=1), whole_step(self.optimizer):
            values = self._captured(*inputs, rate).numpy()
        if not np.isfinite(values).all():
            raise ModeldError(
                f"the loss became {values[0]} in step {self.step + 1}; "
                "go on from the last checkpoint with a lower rate in a phase of its own"
            )
        self.step += 1
        self.history.add(**dict(zip(_MEASURED, map(float, values), strict=True)))
        return float(values[0])

    def evaluate(self) -> str:
        """How far lane lines and speed are off in the last batches, and where features are from."""
        last = slice(-self.config.run.evaluate_every, None)
        lines, speed = (
            np.mean(self.history.steps[name][last]) for name in ("line_error", "speed_error")
        )
        said = f"lane lines {lines:.2f} m off at 20 m, speed {speed:.1f} m/s"
        if self._vision is None:
            return said
        return f"{said}, features of {self._cache.made} batches made, {self._cache.found} found"

    def snapshot(self) -> Snapshot:
        """The run as it is."""
        position = {
            _CONFIG: self.config.identity(self.step),
            _STARTED_FROM: self._started_from,
        }
        return take(
            self.weights,
            self.optimizer,
            step=self.step,
            schedule=self._schedule(self.step),
            position=position,
        )

    def resume(self, snapshot: Snapshot, history: History) -> None:
        """Go on from a snapshot; ModeldError naming both sides when it is of another run."""
        position, step = snapshot.record.position, snapshot.record.step
        require_same_fields(position.get(_CONFIG, {}), self.config.identity(step))
        began = position.get(_STARTED_FROM)
        # The same command goes on; a command without the weights does, too.
        if self._started_from not in (None, began):
            require_same_fields({"--start-from": began}, {"--start-from": self._started_from})
        restore(snapshot, self.weights, self.optimizer, schedule=self._schedule(step))
        self.step, self.history, self._started_from = step, history, began

    def results(self) -> Mapping[str, bytes]:
        """Weights, and the network as ONNX."""
        arrays = {name: tensor.numpy() for name, tensor in self.weights.items()}
        weights = save(arrays)
        label = f"trained/{self.topology.name}/{sha256(weights).hexdigest()[:12]}"
        model = assemble(self.topology, arrays, label)
        return {WEIGHTS: weights, MODEL: model.SerializeToString(deterministic=True)}

    def panels(self) -> tuple[Panel, Panel]:
        """Loss and lane line error, to be drawn."""
        curves = self.history.steps
        return (
            Panel.of_steps("Loss", "negative log likelihood (nat)", curves["loss"]),
            Panel.of_steps("Lane lines at 20 m", "mean error (m)", curves["line_error"]),
        )

    def close(self) -> None:
        """End the processes that make batches."""
        if self._phase is not None:
            self._maker.close()

    def _schedule(self, step: int) -> Schedule:
        """The schedule of the phase of the last of `step` steps."""
        _, phase, _ = self.config.phase_at(max(0, step - 1))
        return phase.schedule

    def _enter(self, phase: Phase) -> None:
        self.close()
        data = self.config.data
        self._maker = BatchMaker(data.seed, phase.sequences, phase.steps_each, data.workers)
        self._kept = {}
        self._paint = TinyJit(
            lambda scenes, cameras: drive_images(scenes, cameras, phase.steps_each).realize()
        )
        self._vision = (
            FrozenVision(self.weights, self.topology, self._compute, phase.steps_each, self._cache)
            if phase.frozen_vision
            else None
        )
        self._captured = TinyJit(self._training_step)
        self._phase = phase

    def _batch(self, phase: Phase, first: int) -> list[Tensor]:
        """The next step's inputs: made, or kept from the last time that they were used."""
        number = phase.batch_at(self.step - first, self.config.data.seed)
        if number in self._kept:
            return self._kept[number]
        batch = self._maker.batch(first + number)
        scenes, cameras, *rest = batch.arrays().values()
        if self._vision is not None:
            looked_at = Tensor(self._vision.features(batch)).realize()
        else:
            looked_at = self._paint(Tensor(scenes).realize(), Tensor(cameras).realize())
            if phase.reuse > 1:
                # The captured kernel paints into the same memory every time.
                looked_at = looked_at.clone().realize()
        inputs = [looked_at, *(Tensor(array).realize() for array in rest)]
        if phase.reuse > 1:
            last = number // phase.kept
            self._kept = {n: t for n, t in self._kept.items() if n // phase.kept == last}
            self._kept[number] = inputs
        return inputs

    def _training_step(
        self,
        looked_at: Tensor,
        desires: Tensor,
        traffic: Tensor,
        action_t: Tensor,
        numbers: Tensor,
        weights: Tensor,
        chances: Tensor,
        choices: Tensor,
        rate: Tensor,
    ) -> Tensor:
        """One step on pictures (S, T + 1, 2, 6, 128, 256), or on what a frozen part saw of them."""
        features = looked_at
        if self._vision is None:
            features = watched(self.weights, self.topology, looked_at, self._compute)
        inputs = (features, desires, traffic, action_t)
        outputs = sequence_outputs(self.weights, self.topology, *inputs)
        parts = (
            number_loss(outputs, numbers, weights),
            chance_loss(outputs, chances),
            choice_loss(outputs, choices),
        )
        loss = parts[0] + parts[1] + parts[2]
        learning = [
            (member, group.rate_factor)
            for member, group in zip(self.optimizer.optimizers, self._groups, strict=True)
            if group.policy or self._vision is None
        ]
        optimizer = OptimizerGroup(*(member for member, _ in learning))
        optimizer.zero_grad()
        loss.backward()
        require_gradients(optimizer, self.weights)
        if desires.shape[1] == 1:
            # A single look has no past to learn the use of.
            memory = self.weights["attention.memory.weight"]
            memory.grad = memory.grad.zeros_like()
        _clip_gradients(optimizer.params, self.config.optimizer.clip)
        # In place: the rate belongs to the state that is saved.
        rates = [member.lr.assign(rate * factor) for member, factor in learning]
        errors = line_error(outputs, numbers, weights), speed_error(outputs, numbers)
        measured = loss.stack(*parts, *errors)
        Tensor.realize(measured, *rates, *optimizer.schedule_step())
        return measured


def _clip_gradients(parameters: Sequence[Tensor], clip: float) -> None:
    """Scale all gradients so that together they are not longer than `clip`."""
    for parameter in parameters:
        parameter.grad = parameter.grad.contiguous()
    # One kernel each: all sums in one are more than OpenCL compilers take.
    squares = [p.grad.square().sum().contiguous() for p in parameters]
    length = squares[0].stack(*squares[1:]).sum().sqrt()
    factor = (clip / (length + 1e-6)).minimum(1.0).contiguous()
    for parameter in parameters:
        parameter.grad = parameter.grad * factor
