"""The file that `modeld-compile train` reads, in TOML; the tables of the digits network."""

import dataclasses
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tinygrad import Tensor
from tinygrad.nn.optim import LAMB, LARS, SGD, Adam, AdamW, Muon, Optimizer

from compile.training.driving.config import DrivingConfig
from compile.training.records import from_document
from compile.training.schedule import Schedule
from modeld.errors import ModeldError
from modeld.files import read_small


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """784 inputs, one hidden layer, 10 scores; `dropout` is a share of the hidden values."""

    hidden: int = 128
    dropout: float = 0.0


@dataclass(frozen=True, slots=True)
class DataConfig:
    """Drawn digits: how many to train on and to test on, and how many a batch has."""

    seed: int = 1
    train: int = 2000
    test: int = 500
    batch: int = 64


@dataclass(frozen=True, slots=True)
class OptimizerConfig:
    """`kind` is SGD, LARS, Muon, Adam, AdamW or LAMB; `momentum` is for the first three."""

    kind: str = "Adam"
    rate: float = 3e-4
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    fused: bool = False


@dataclass(frozen=True, slots=True)
class ScheduleConfig:
    """How the rate goes over the run: `constant`, `linear` or `cosine` after a warm-up."""

    shape: str = "constant"
    warm_up: int = 0


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Length in steps, seed of weights and dropout, and what happens every so many steps."""

    steps: int = 1000
    seed: int = 1
    evaluate_every: int = 100
    save_every: int = 200
    keep: int = 3


@dataclass(frozen=True, slots=True)
class DigitsConfig:
    """All tables of the file; what is left out has the value here."""

    network: NetworkConfig = NetworkConfig()
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    run: RunConfig = RunConfig()

    def __post_init__(self) -> None:
        """Check the numbers; ModeldError."""
        for table, name in (("network", "hidden"), *(("run", n) for n in _COUNTS)):
            value = getattr(getattr(self, table), name)
            if value < 1:
                raise ModeldError(f"{table}.{name} is {value}; use 1 or more")
        if self.optimizer.kind not in _MAKERS:
            raise ModeldError(
                f"optimizer.kind is {self.optimizer.kind!r}; use one of {', '.join(_MAKERS)}"
            )

    @property
    def full_schedule(self) -> Schedule:
        """The learning rate over the run."""
        shape, warm_up = self.schedule.shape, self.schedule.warm_up
        return Schedule(shape, self.optimizer.rate, self.run.steps, warm_up)


_COUNTS = ("steps", "evaluate_every", "save_every", "keep")


def read_config(path: Path) -> DigitsConfig | DrivingConfig:
    """The run described in a TOML file; ModeldError naming the field that is wrong.

    `task` says what is trained; without it, digits.
    """
    try:
        document = tomllib.loads(read_small(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ModeldError(f"{path} is not TOML ({error})") from None
    task = document.pop("task", "digits")
    if task not in ("digits", "driving"):
        raise ModeldError(f"{path}: task is {task!r}; use digits or driving")
    kind: type[DigitsConfig] | type[DrivingConfig]
    kind = DrivingConfig if task == "driving" else DigitsConfig
    return from_document(kind, document, str(path))


def make_optimizer(config: OptimizerConfig, parameters: list[Tensor]) -> Optimizer:
    """The optimizer so described, on these parameters."""
    try:
        return _MAKERS[config.kind](config, parameters)
    except (ValueError, AssertionError) as error:
        raise ModeldError(f"optimizer: {str(error) or 'values are out of range'}") from None


def _momentum(make: Callable[..., Optimizer]) -> Callable[..., Optimizer]:
    names = ("momentum", "nesterov", "weight_decay", "fused")
    return lambda c, p: make(p, c.rate, **{name: getattr(c, name) for name in names})


def _decaying(make: Callable[..., Optimizer]) -> Callable[..., Optimizer]:
    return lambda c, p: make(p, c.rate, weight_decay=c.weight_decay, fused=c.fused)


_MAKERS: dict[str, Callable[[OptimizerConfig, list[Tensor]], Optimizer]] = {
    "SGD": _momentum(SGD),
    "LARS": _momentum(LARS),
    "Muon": _momentum(Muon),
    "Adam": lambda c, p: Adam(p, c.rate, fused=c.fused),
    "AdamW": _decaying(AdamW),
    "LAMB": _decaying(LAMB),
}


def run_identity(config: DigitsConfig) -> dict[str, object]:
    """The fields of network and data, by path: they decide every step.

    What the optimizer and the schedule were is compared with the checkpoint itself.
    """
    tables = (
        ("network", dataclasses.asdict(config.network)),
        ("data", dataclasses.asdict(config.data)),
    )
    return {f"{table}.{name}": value for table, fields in tables for name, value in fields.items()}
