"""`modeld-compile train`."""

import sys
from pathlib import Path

from compile.device import use_device
from compile.training.config import read_config
from compile.training.display import TrainingDisplay
from compile.training.loop import MODEL, train
from compile.training.plots import plot_history
from modeld.opencl import select_device

PLOT = "training.png"


def run(config: Path, out: Path, device: str | None) -> int:
    """Train as the TOML file `config` says in directory `out`; returns the exit status.

    Raises ModeldError for wrong files and for a run in `out` that is another one.
    """
    settings = read_config(config)
    use_device(select_device(device))
    display = TrainingDisplay()
    try:
        with display:
            trainer = train(settings, out, display)
    except KeyboardInterrupt:
        display.noted("interrupted; the same command goes on from the last checkpoint")
        return 130
    steps, optimizer = settings.run.steps, settings.optimizer
    title = f"{config.stem}: {steps} steps of {optimizer.kind} at {optimizer.rate:g}"
    plot_history(trainer.history, title, out / PLOT)
    accuracy = trainer.history.accuracies[steps]
    sys.stdout.write(f"{accuracy:.1%} of the test digits recognized; {out / MODEL}\n")
    return 0
