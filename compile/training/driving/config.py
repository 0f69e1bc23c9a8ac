"""The tables of a driving network's training run, as `modeld-compile train` reads them."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from compile.reference.topology import TOPOLOGIES, Topology
from compile.training.schedule import Schedule
from modeld.errors import ModeldError

_COMPUTE = ("float32", "float16")


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Size of the network, and the element type in which its convolutions are computed."""

    size: str = "small"
    compute: str = "float32"


@dataclass(frozen=True, slots=True)
class DataConfig:
    """`seed` decides all drives; `workers` processes make them ahead of time, 0 for none.

    `features` is where phases with a frozen vision part keep what it sees, a folder in that of
    the run, or one with a path of its own that several runs may share.
    """

    seed: int = 1
    workers: int = 0
    features: str = "features"


@dataclass(frozen=True, slots=True)
class OptimizerConfig:
    """AdamW; gradients that together are longer than `clip` are shortened to it."""

    weight_decay: float = 0.02
    clip: float = 1.0


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a run: `steps` batches of `sequences` drives, each `steps_each` moments long.

    Moments are 0.2 s apart. Short drives show the most scenes; long ones train the memory. The
    pictures of `kept` batches stay in memory at a time, and each of these batches comes `reuse`
    times, in an order of its own each time.

    With `frozen_vision` only memory, trunk and heads learn. What the vision part sees of each
    drive is then made once and kept on disk, and in memory in place of the pictures.
    """

    sequences: int
    steps_each: int
    steps: int
    rate: float
    warm_up: int = 0
    shape: str = "constant"
    reuse: int = 1
    kept: int = 1
    frozen_vision: bool = False

    @property
    def schedule(self) -> Schedule:
        """The learning rate over the phase."""
        return Schedule(self.shape, self.rate, self.steps, self.warm_up)

    def batch_at(self, step: int, seed: int) -> int:
        """Number, from 0, of the batch that the phase's step `step` uses."""
        block, place = divmod(step, self.kept * self.reuse)
        turn, place = divmod(place, self.kept)
        if turn:
            order = np.random.default_rng([seed, block, turn]).permutation(self.kept)
            place = int(order[place])
        return block * self.kept + place


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Seed of the weights to begin with, and what happens every so many steps."""

    seed: int = 1
    evaluate_every: int = 20
    save_every: int = 100
    keep: int = 3


@dataclass(frozen=True, slots=True)
class DrivingConfig:
    """All tables of the file; what is left out has the value here."""

    phases: tuple[Phase, ...]
    network: NetworkConfig = NetworkConfig()
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    run: RunConfig = RunConfig()

    def __post_init__(self) -> None:
        """Check the values; ModeldError."""
        if not self.phases:
            raise ModeldError("phases are none; add a [[phases]] table")
        for name, value in self._counts():
            if value < 1:
                raise ModeldError(f"{name} is {value}; use 1 or more")
        for name, chosen, known in (
            ("network.size", self.network.size, tuple(TOPOLOGIES)),
            ("network.compute", self.network.compute, _COMPUTE),
        ):
            if chosen not in known:
                raise ModeldError(f"{name} is {chosen!r}; use one of {', '.join(known)}")
        if not self.optimizer.clip > 0:
            raise ModeldError(f"optimizer.clip is {self.optimizer.clip}; use a number above 0")
        for phase in self.phases:
            # Refuses wrong rates and shapes before any work.
            _ = phase.schedule

    @property
    def topology(self) -> Topology:
        """The network's layers."""
        return TOPOLOGIES[self.network.size]

    @property
    def steps(self) -> int:
        """Length of the whole run."""
        return sum(phase.steps for phase in self.phases)

    def phase_at(self, step: int) -> tuple[int, Phase, int]:
        """Number of the phase of the step after `step` finished ones, the phase, its first step.

        After the end of the run, the last phase.
        """
        first = 0
        for number, phase in enumerate(self.phases):
            if step < first + phase.steps:
                return number, phase, first
            first += phase.steps
        last = self.phases[-1]
        return len(self.phases) - 1, last, first - last.steps

    def identity(self, step: int) -> dict[str, object]:
        """The fields that decided the first `step` steps besides the optimizer's, by path.

        Phases that have not begun may still be changed.
        """
        begun, _, _ = self.phase_at(max(0, step - 1))
        return {
            "network.size": self.network.size,
            "network.compute": self.network.compute,
            "run.seed": self.run.seed,
            "data.seed": self.data.seed,
            "optimizer.clip": self.optimizer.clip,
            **{
                f"phases[{number}].{name}": value
                for number, phase in enumerate(self.phases[: begun + 1])
                for name, value in asdict(phase).items()
                # As with runs that began before there was a choice.
                if phase.reuse > 1 or name not in ("reuse", "kept")
                if phase.frozen_vision or name != "frozen_vision"
            },
        }

    def _counts(self) -> Iterator[tuple[str, int]]:
        for name in ("evaluate_every", "save_every", "keep"):
            yield f"run.{name}", getattr(self.run, name)
        for number, phase in enumerate(self.phases):
            for name in ("sequences", "steps_each", "steps", "reuse", "kept"):
                yield f"phases[{number}].{name}", getattr(phase, name)
