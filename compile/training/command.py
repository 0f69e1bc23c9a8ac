"""`modeld-compile train` and `modeld-compile evaluate`."""

import sys
from pathlib import Path

from compile.device import use_device
from compile.training.checkpoint import CheckpointStore
from compile.training.config import DigitsConfig, read_config
from compile.training.digits_trainer import DigitsTrainer
from compile.training.display import TrainingDisplay
from compile.training.driving.config import DrivingConfig
from compile.training.loop import CHECKPOINTS, MODEL, train
from compile.training.plots import plot_run
from modeld.errors import ModeldError
from modeld.opencl import select_device
from modeld.signals import StoppedError

PLOT = "training.png"


def run(config: Path, out: Path, device: str | None, start_from: Path | None) -> int:
    """Train as the TOML file `config` says in directory `out`; returns the exit status.

    `start_from` names weights that a driving network begins with. Raises ModeldError for wrong
    files and for a run in `out` that is another one, and StoppedError that says what is kept.
    """
    settings = read_config(config)
    display = TrainingDisplay()
    try:
        with display:
            if isinstance(settings, DrivingConfig):
                _train_driving(settings, config.stem, out, device, start_from, display)
            elif start_from is not None:
                raise ModeldError("--start-from is for driving networks; digits begin from a seed")
            else:
                _train_digits(settings, config.stem, out, device, display)
    except StoppedError as stopped:
        raise StoppedError(stopped.number, _kept(out)) from None
    return 0


def _kept(out: Path) -> str:
    latest = CheckpointStore(out / CHECKPOINTS).latest()
    if latest is None:
        return "before the first checkpoint; the same command begins again"
    return f"with {latest} kept; the same command goes on from there"


def _train_digits(
    settings: DigitsConfig, name: str, out: Path, device: str | None, display: TrainingDisplay
) -> None:
    use_device(select_device(device))
    trainer = train(lambda: DigitsTrainer(settings), settings.run, out, display)
    steps, optimizer = settings.run.steps, settings.optimizer
    title = f"{name}: {steps} steps of {optimizer.kind} at {optimizer.rate:g}"
    plot_run(trainer.panels(), title, out / PLOT)
    sys.stdout.write(f"{trainer.accuracy:.1%} of the test digits recognized; {out / MODEL}\n")


def _train_driving(
    settings: DrivingConfig,
    name: str,
    out: Path,
    device: str | None,
    start_from: Path | None,
    display: TrainingDisplay,
) -> None:
    # Imports much that digits do not need.
    from compile.reference.weights import load
    from compile.training.driving.trainer import DrivingTrainer

    weights = None if start_from is None else load(start_from)
    use_device(select_device(device))
    features = out / settings.data.features
    trainer = train(lambda: DrivingTrainer(settings, features, weights), settings.run, out, display)
    trainer.close()
    title = f"{name}: {settings.steps} steps, {settings.network.size} network"
    plot_run(trainer.panels(), title, out / PLOT)
    sys.stdout.write(f"{out / MODEL}; modeld-compile evaluate {out} says how well it sees\n")
