"""Pictures of numbers: two logs side by side, and a daemon's latencies."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from modeld.errors import ModeldError
from modeld.files import ending_of, write_result
from modeld.messaging import member_name
from modeld.rig.latency import Sample
from modeld.rig.recorder import STACKED, Row, stage_times

_DPI = 110
_INK, _FAINT, _REFERENCE, _NEW, _WARNING = "#22303c", "#c8d0d8", "#8fa3b5", "#0b7a75", "#d1495b"

_FEW_FRAMES = 30
# The kinds of pictures that can be written, by the ending of the name.
PICTURE_ENDINGS = (".png", ".svg", ".pdf")

# The curves that openpilot's model replay shows for a change of model.
_SERIES: Mapping[str, Callable[[Any], float]] = {
    "velocity.x[0]  (m/s)": lambda m: m.velocity.x[0],
    "action.desiredCurvature  (1/m)": lambda m: m.action.desiredCurvature,
    "action.desiredAcceleration  (m/s²)": lambda m: m.action.desiredAcceleration,
    "leadsV3[0].x[0]  (m)": lambda m: m.leadsV3[0].x[0],
    "laneLines[1].y[0]  (m)": lambda m: m.laneLines[1].y[0],
    "meta.desireState[3]  (change left)": lambda m: m.meta.desireState[3],
    "meta.desireState[4]  (change right)": lambda m: m.meta.desireState[4],
    "gasPressProbs[1]": lambda m: m.meta.disengagePredictions.gasPressProbs[1],
}


@dataclass
class ModelCurves:
    """The eight curves of one log, by frame id; a message without a value gives NaN."""

    frames: list[int]
    values: dict[str, list[float]]


def read_curves(events: Iterable[Any]) -> ModelCurves:
    """Take the curves out of the modelV2 messages of a log."""
    curves = ModelCurves([], {name: [] for name in _SERIES})
    for event in events:
        if member_name(event) != "modelV2":
            continue
        curves.frames.append(event.modelV2.frameId)
        for name, value in _SERIES.items():
            try:
                curves.values[name].append(value(event.modelV2))
            except IndexError:  # older networks lack some heads
                curves.values[name].append(float("nan"))
    return curves


def plot_comparison(
    path: Path, first: ModelCurves, second: ModelCurves, names: tuple[str, str]
) -> None:
    """Write a picture of the eight curves of both logs, the first broad and pale behind."""
    figure = Figure((13, 11), dpi=_DPI, layout="constrained")
    grid = figure.subplots(4, 2, sharex=True)
    for axes, name in zip(grid.ravel(), _SERIES, strict=True):
        _draw_curve(axes, first, name, _REFERENCE, 4, names[0])
        _draw_curve(axes, second, name, _NEW, 1.2, names[1])
        if not np.isfinite([*first.values[name], *second.values[name]]).any():
            axes.text(0.5, 0.5, "in neither log", transform=axes.transAxes, color=_INK, ha="center")
        _dress(axes, name)
    for axes in grid[-1]:
        axes.set_xlabel("frame id", color=_INK)
    grid[0, 0].legend(loc="best", frameon=False)
    figure.suptitle(f"{names[0]}  and  {names[1]}", color=_INK, fontsize=14)
    _save(figure, path)


def _draw_curve(
    axes: Axes, curves: ModelCurves, name: str, colour: str, width: float, label: str
) -> None:
    # A line needs two points; a few are better seen as points anyway.
    marker = "o" if len(curves.frames) <= _FEW_FRAMES else ""
    (line,) = axes.plot(curves.frames, curves.values[name], color=colour, lw=width, label=label)
    line.set(marker=marker, markersize=width + 2)


def plot_latency(
    path: Path, rows: Sequence[Row], samples: Sequence[Sample], deadline_ms: float, title: str
) -> None:
    """Write a picture of a run's latencies in ms: each frame's stages stacked, and percentiles.

    Raises ModeldError when nothing was answered, or the file cannot be written.
    """
    if not rows:
        raise ModeldError(
            f"no frame was answered after the warm-up; nothing to draw in {path}; measure longer"
        )
    figure = Figure((13, 8), dpi=_DPI, layout="constrained")
    timeline, spread = figure.subplots(2, 1, height_ratios=(1.25, 1))
    _draw_timeline(timeline, rows, samples, deadline_ms)
    _draw_percentiles(spread, rows, samples, deadline_ms)
    figure.suptitle(title, color=_INK, fontsize=14)
    _save(figure, path)


_STAGE_COLOURS = (
    "#dfe5ea", "#264653", "#2a9d8f", "#8ab17d", "#e9c46a", "#f4a261", "#e76f51", "#9d4edd",
    "#577590",
)  # fmt: skip


def _draw_timeline(
    axes: Axes, rows: Sequence[Row], samples: Sequence[Sample], deadline_ms: float
) -> None:
    answered = [sample for sample in samples if not sample.skipped]
    frames = [sample.frame_id for sample in answered]
    latency = [sample.latency / 1e6 for sample in answered]
    durations = [stage_times(row.times, row.answer) for row in rows]
    axes.stackplot(
        [row.answer.frame_id for row in rows],
        *([stages[name] / 1e6 for stages in durations] for name in STACKED),
        labels=STACKED,
        colors=_STAGE_COLOURS,
        step="mid",
        alpha=0.9,
        lw=0,
    )
    axes.plot(frames, latency, color=_INK, lw=1, label="end of frame to message")
    axes.axhline(deadline_ms, color=_WARNING, lw=1.2, ls="--")
    axes.text(frames[0], deadline_ms, " deadline", color=_WARNING, va="bottom")
    top = max(deadline_ms * 1.25, max(latency) * 1.1)
    skipped = [sample.frame_id for sample in samples if sample.skipped]
    if skipped:
        heights = [top * 0.96] * len(skipped)
        axes.plot(skipped, heights, "v", color=_WARNING, label="frame skipped")
    axes.set_ylim(0, top)
    axes.set_xlim(frames[0], max(frames[-1], frames[0] + 1))
    axes.set_xlabel("frame id", color=_INK)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=12, frameon=False, fontsize=8)
    _dress(axes, "each frame (ms)")


def _draw_percentiles(
    axes: Axes, rows: Sequence[Row], samples: Sequence[Sample], deadline_ms: float
) -> None:
    # Equal steps for each further nine, which is where a latency's tail shows.
    turns = np.array([row.times.stages()["turn"] / 1e6 for row in rows])
    latencies = np.array([sample.latency / 1e6 for sample in samples])
    curves = (("the daemon's turn", turns, _NEW), ("end to end, skipped included", latencies, _INK))
    for name, values, colour in curves:
        share = (np.arange(len(values)) + 1) / (len(values) + 1)
        axes.plot(-np.log10(1 - share), np.sort(values), color=colour, lw=2, label=name)
    nines = [n for n in (0.5, 0.9, 0.99, 0.999, 0.9999) if 1 - n >= 0.3 / len(latencies)]
    places = [-math.log10(1 - n) for n in nines]
    axes.set_xticks(places, [f"p{100 * n:g}" for n in nines])
    axes.set_xlim(places[0], math.log10(len(latencies) + 1) * 1.02)
    axes.axhline(deadline_ms, color=_WARNING, lw=1.2, ls="--")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", frameon=False)
    _dress(axes, "percentiles (ms)")


def _dress(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10, color=_INK)
    axes.grid(color=_FAINT, lw=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9, colors=_INK)


def _save(figure: Figure, path: Path) -> None:
    content = BytesIO()
    FigureCanvasAgg(figure)
    kind = ending_of(path, "picture", PICTURE_ENDINGS).removeprefix(".")
    figure.savefig(content, format=kind)
    write_result(path, content.getvalue())
