"""The description of a run at one moment, as it stands in a checkpoint's manifest."""

from dataclasses import dataclass
from typing import Any

from compile.training.optimizers import OptimizerRecord
from compile.training.placement import Placement
from compile.training.randomness import RandomState
from compile.training.schedule import Schedule

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class ParameterRecord:
    """A tensor of the model; `same_as` names the one it is the same tensor as (tied weights)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    placement: Placement
    same_as: str | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run consists of and where it is.

    `devices` names the hardware and driver behind each device; `grouped` tells an OptimizerGroup
    of one from the optimizer in it; `position` is the place in the data, for the run's own use.
    """

    format_version: int
    tinygrad: str
    devices: dict[str, str]
    step: int
    parameters: tuple[ParameterRecord, ...]
    grouped: bool
    optimizers: tuple[OptimizerRecord, ...]
    schedule: Schedule | None
    random: RandomState
    position: dict[str, Any]
