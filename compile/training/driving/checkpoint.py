"""A training run on disk: weights, both Adam moments, and where the run is.

Four files, each written whole or not at all; the state file comes last and names the others by
hash, so a run interrupted while saving resumes from files that belong together or says that they
do not.
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load, save
from tinygrad import Tensor

from compile.reference.topology import TOPOLOGIES
from compile.reference.weights import check, seeded
from compile.training.driving.loop import Config, Trainer
from compile.training.driving.model import to_tensors
from modeld.errors import ModeldError
from modeld.files import write_atomic

WEIGHTS, FIRST, SECOND, STATE = (
    "weights.safetensors", "first_moments.safetensors", "second_moments.safetensors", "state.json",
)  # fmt: skip
# May differ between the parts of one run.
_FREE = ("workers", "device", "minutes")

Arrays = dict[str, npt.NDArray[np.float32]]


def save_run(directory: Path, trainer: Trainer) -> str:
    """Write the run to `directory`; returns the sha256 of the weights file, hex."""
    directory.mkdir(parents=True, exist_ok=True)
    optimizer = trainer.optimizer
    # The optimizer keeps its moments in the order in which it was given the weights.
    names = list(trainer.weights)
    digests = {}
    for file, tensors in (
        (WEIGHTS, list(trainer.weights.values())),
        (FIRST, optimizer.m),
        (SECOND, optimizer.v),
    ):
        content = save({n: t.numpy() for n, t in zip(names, tensors, strict=True)})
        write_atomic(directory / file, content)
        digests[file] = hashlib.sha256(content).hexdigest()
    state = {
        "step": trainer.step_number,
        "seconds": trainer.seconds,
        "bias_powers": [float(optimizer.b1_t.numpy()[0]), float(optimizer.b2_t.numpy()[0])],
        "config": asdict(trainer.config),
        "sha256": digests,
    }
    write_atomic(directory / STATE, (json.dumps(state, indent=1) + "\n").encode())
    return digests[WEIGHTS]


def start_run(config: Config) -> Trainer:
    """A run at its beginning, from weights seeded by the configuration."""
    if config.size not in TOPOLOGIES:
        known = ", ".join(sorted(TOPOLOGIES))
        raise ModeldError(f"no reference network of size {config.size!r}; choose one of {known}")
    arrays = seeded(TOPOLOGIES[config.size], config.seed)
    return Trainer(config, to_tensors(arrays, config.device))


def resume_run(directory: Path, config: Config) -> Trainer:
    """The run saved in `directory`, to be continued.

    Raises ModeldError when files are missing, changed, or belong to another configuration.
    """
    state = _read_state(directory)
    for name, value in asdict(config).items():
        then = state["config"].get(name)
        if name not in _FREE and value != then:
            raise ModeldError(
                f"{directory} was made with {name}={then}, not {value}; "
                f"resume with {name}={then} or start a new run elsewhere"
            )
    weights, first, second = (_read(directory, f, state) for f in (WEIGHTS, FIRST, SECOND))
    check(weights, TOPOLOGIES[config.size])
    trainer = Trainer(config, to_tensors(weights, config.device))
    optimizer = trainer.optimizer
    for slots, arrays in ((optimizer.m, first), (optimizer.v, second)):
        for slot, name in zip(slots, trainer.weights, strict=True):
            slot.assign(Tensor(arrays[name], device=config.device)).realize()
    for power, value in zip((optimizer.b1_t, optimizer.b2_t), state["bias_powers"], strict=True):
        power.assign(Tensor([value], device=config.device)).realize()
    trainer.step_number, trainer.seconds = state["step"], state["seconds"]
    return trainer


def _read_state(directory: Path) -> dict:  # type: ignore[type-arg]
    path = directory / STATE
    try:
        state = json.loads(path.read_bytes())
        if not isinstance(state["step"], int) or not isinstance(state["config"], dict):
            raise ValueError("step or config has the wrong type")
    except (OSError, ValueError, KeyError) as error:
        raise ModeldError(f"cannot resume from {path}: {error}; start a new run") from None
    return state  # type: ignore[no-any-return]


def _read(directory: Path, file: str, state: dict) -> Arrays:  # type: ignore[type-arg]
    path = directory / file
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModeldError(f"cannot resume from {path}: {error}; start a new run") from None
    found, wanted = hashlib.sha256(content).hexdigest(), state["sha256"].get(file)
    if found != wanted:
        raise ModeldError(
            f"{path} has sha256 {found[:12]}, {STATE} says {str(wanted)[:12]}; "
            "the files are of different moments: resume from another copy"
        )
    return dict(load(content))
