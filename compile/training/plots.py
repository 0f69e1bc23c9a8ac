"""A picture of a training run: loss and accuracy over the steps."""

from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from compile.training.loop import History
from modeld.files import write_atomic

_INK, _LOSS, _ACCURACY, _FAINT = "#22303c", "#d1495b", "#0b7a75", "#e6b3ba"
# Steps over which the loss is averaged for the thick curve, at most a tenth of the run.
_WINDOW = 25


def plot_history(history: History, title: str, path: Path) -> None:
    """Write a PNG with the loss of each step, its running mean, and the measured accuracies."""
    figure = Figure(figsize=(9, 3.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    loss_axes, accuracy_axes = figure.subplots(1, 2)
    losses = np.array(history.losses)
    steps = np.arange(1, len(losses) + 1)
    window = max(1, min(_WINDOW, len(losses) // 10))
    loss_axes.semilogy(steps, losses, color=_FAINT, linewidth=0.8, label="each batch")
    mean = np.convolve(losses, np.ones(window) / window, "valid")
    label = f"mean of {window} batches"
    middle = steps[window // 2 :][: len(mean)]
    loss_axes.semilogy(middle, mean, color=_LOSS, linewidth=1.8, label=label)
    loss_axes.set(xlabel="step", ylabel="cross-entropy of the batch (nat)", title="Loss")
    loss_axes.legend(frameon=False)
    measured = sorted(history.accuracies.items())
    at, accuracy = [step for step, _ in measured], [100 * value for _, value in measured]
    accuracy_axes.plot(at, accuracy, color=_ACCURACY, marker="o", markersize=4)
    accuracy_axes.set(
        xlabel="step", ylabel="digits recognized (%)", title="Accuracy on the test digits"
    )
    accuracy_axes.set(ylim=(0, 102), xlim=(0, len(losses) * 1.03 + 1))
    if measured:
        accuracy_axes.annotate(
            f"{accuracy[-1]:.1f} %", (at[-1], accuracy[-1]), (0, -16), textcoords="offset points",
            ha="right", color=_ACCURACY,
        )  # fmt: skip
    for axes in (loss_axes, accuracy_axes):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, color=_INK)
    stream = BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    write_atomic(path, stream.getvalue())
