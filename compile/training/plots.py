"""A picture of a training run: loss and quality over the steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from modeld.files import write_result

_INK, _LEFT, _RIGHT, _FAINT = "#22303c", "#d1495b", "#0b7a75", "#c8ccd0"
# Steps over which a curve of every step is averaged for the thick line, at most a tenth of all.
_WINDOW = 25


@dataclass(frozen=True, slots=True)
class Panel:
    """A curve to draw: `values` after `steps` steps; `noisy` ones get a running mean."""

    title: str
    label: str
    steps: Sequence[int]
    values: Sequence[float]
    noisy: bool = False
    limits: tuple[float, float] | None = None

    @staticmethod
    def of_steps(title: str, label: str, values: Sequence[float]) -> "Panel":
        """A curve with a value for every step."""
        return Panel(title, label, range(1, len(values) + 1), values, noisy=True)


def plot_run(panels: tuple[Panel, Panel], title: str, path: Path) -> None:
    """Write a PNG with two curves side by side."""
    figure = Figure(figsize=(9, 3.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    last = max((panel.steps[-1] for panel in panels if len(panel.steps)), default=1)
    for axes, panel, colour in zip(figure.subplots(1, 2), panels, (_LEFT, _RIGHT), strict=True):
        (_draw_noisy if panel.noisy else _draw_points)(axes, panel, colour)
        axes.set(xlabel="step", ylabel=panel.label, title=panel.title, xlim=(0, last * 1.03 + 1))
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, color=_INK)
    stream = BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    write_result(path, stream.getvalue())


def _draw_noisy(axes: Axes, panel: Panel, colour: str) -> None:
    values = np.array(panel.values)
    window = max(1, min(_WINDOW, len(values) // 10))
    axes.semilogy(panel.steps, values, color=_FAINT, linewidth=0.8, label="each batch")
    mean = np.convolve(values, np.ones(window) / window, "valid")
    middle = panel.steps[window // 2 :][: len(mean)]
    label = f"mean of {window} batches"
    axes.semilogy(middle, mean, color=colour, linewidth=1.8, label=label)
    axes.legend(frameon=False)


def _draw_points(axes: Axes, panel: Panel, colour: str) -> None:
    axes.plot(panel.steps, panel.values, color=colour, marker="o", markersize=4)
    if panel.limits:
        axes.set(ylim=panel.limits)
    if panel.values:
        axes.annotate(
            f"{panel.values[-1]:.1f}", (panel.steps[-1], panel.values[-1]), (0, -16),
            textcoords="offset points", ha="right", color=colour,
        )  # fmt: skip
