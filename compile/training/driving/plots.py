"""Pictures of how well weights see, as PNG bytes."""

import io
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from compile.reference.heads import output_slices
from compile.training.driving.targets import places
from modeld.calibration import MEDMODEL
from modeld.constants import X_IDXS

if TYPE_CHECKING:
    from compile.training.driving.evaluate import Metrics, Sample

_NEAREST_M = 3.0


def draw_errors(metrics: "Metrics") -> bytes:
    """Distributions of the errors, and said against true curvature."""
    figure = Figure(figsize=(13, 7), layout="constrained")
    axes = figure.subplots(2, 3).ravel()
    for axis, (distance, errors) in zip(axes, metrics.line_errors.items(), strict=False):
        _histogram(axis, errors, f"lane line error at {distance:.0f} m", "m", 1.5)
    _histogram(axes[2], metrics.path_errors, "path error at 2 s", "m", 1.5)
    _histogram(axes[3], metrics.lead_errors, "lead distance error within 50 m", "share", 0.6)
    said, true = metrics.curvature
    axes[4].plot(true, said, ".", markersize=2)
    axes[4].set(title="curvature", xlabel="true, 1/m", ylabel="said, 1/m")
    chance = 1 / (1 + np.exp(-metrics.scores))
    bins = list(np.linspace(0, 1, 41))
    axes[5].hist(chance[metrics.painted > 0.5], bins, alpha=0.6, label="painted")
    axes[5].hist(chance[metrics.painted < 0.5], bins, alpha=0.6, label="not there")
    axes[5].set(title="lane line probability", yscale="log")
    axes[5].legend()
    return _png(figure)


def _histogram(axis: Axes, errors: np.ndarray, title: str, unit: str, end: float) -> None:
    axis.hist(np.minimum(errors, end), list(np.linspace(0, end, 61)))
    if len(errors):
        axis.axvline(float(np.median(errors)), color="black")
        title += f": median {np.median(errors):.3f}"
    axis.set(title=title, xlabel=unit)


def draw_samples(metrics: "Metrics") -> bytes:
    """Narrow views with true lines (white) and said lines (green, by probability) and path."""
    rows = -(-len(metrics.samples) // 3)
    figure = Figure(figsize=(15, 2.6 * max(rows, 1)), layout="constrained")
    for axis, sample in zip(figure.subplots(rows, 3).ravel(), metrics.samples, strict=False):
        axis.imshow(sample.luma, cmap="gray", vmin=0, vmax=255)
        axis.set(xlim=(0, 511), ylim=(255, 0), xticks=[], yticks=[])
        _draw_sample(axis, sample)
    return _png(figure)


def _draw_sample(axis: Axes, sample: "Sample") -> None:
    ahead = X_IDXS >= _NEAREST_M
    mean = places("lane_lines")[0]
    said = sample.outputs[mean].reshape(4, 33, 2)
    true = sample.numbers[: mean.stop - mean.start].reshape(4, 33, 2)
    logits = sample.outputs[output_slices()["lane_lines_prob"]][1::2]
    for i in range(4):
        if sample.painted[i] > 0.5:
            axis.plot(*_pixels(X_IDXS[ahead], true[i, ahead]), "w--", linewidth=0.7)
        chance = float(1 / (1 + np.exp(-logits[i])))
        axis.plot(*_pixels(X_IDXS[ahead], said[i, ahead]), color="lime", alpha=chance)
    plan = sample.outputs[places("plan")[0]].reshape(33, 15)
    plan = plan[plan[:, 0] >= _NEAREST_M]
    # The plan is of the camera; the road is its height below.
    height = said[1, 0, 1]
    axis.plot(*_pixels(plan[:, 0], plan[:, 1:3] + [0, height]), color="magenta")


def _pixels(x: np.ndarray, side: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns and rows in the narrow view of points x ahead, (y, z) to the side and down."""
    matrix = MEDMODEL.matrix
    return (
        matrix[0, 0] * side[:, 0] / x + matrix[0, 2],
        matrix[1, 1] * side[:, 1] / x + matrix[1, 2],
    )


def _png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=80)
    return stream.getvalue()
