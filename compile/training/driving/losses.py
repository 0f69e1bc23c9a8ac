"""How wrong the network's outputs are, as one number to minimise."""

import numpy as np
from tinygrad import Tensor

from compile.reference.heads import output_slices
from compile.training.driving.targets import (
    CHANCES,
    CHOICES,
    NUMBERS,
    least_log_std,
    places,
    target_spans,
)
from modeld.constants import X_IDXS
from modeld.grid import neighbours

_SLICES = output_slices()
# Deviations above this are not believed; keeps exp() in range at the start.
_GREATEST_LOG_STD = 6.0


def _columns(outputs: Tensor, ranges: list[slice]) -> Tensor:
    parts = [outputs[..., part] for part in ranges]
    return parts[0].cat(*parts[1:], dim=-1)


def means_of(outputs: Tensor) -> Tensor:
    """The means of all `NUMBERS` heads, (..., NUMBER_WIDTH)."""
    return _columns(outputs, [places(head)[0] for head in NUMBERS])


def number_loss(outputs: Tensor, numbers: Tensor, weights: Tensor) -> Tensor:
    """Negative log likelihood of Laplace distributions with the given standard deviations.

    -log p = sqrt(2) |x - mean| / std + log std, up to a constant; (..., T, width) to a scalar.
    """
    least = Tensor(least_log_std(), device=outputs.device)
    log_std = _columns(outputs, [places(head)[1] for head in NUMBERS])
    log_std = log_std.maximum(least).minimum(_GREATEST_LOG_STD)
    error = (means_of(outputs) - numbers).abs()
    loss = error * (-log_std).exp() * float(np.sqrt(2)) + (log_std - least)
    # A kernel of its own: in one with the other losses it would be worked out for each of them.
    return (loss * weights).sum(-1).mean().contiguous()


def line_error(outputs: Tensor, numbers: Tensor, weights: Tensor, distance: float = 20.0) -> Tensor:
    """Mean sideways error of painted lane lines `distance` metres ahead, a scalar in metres."""
    span = target_spans()["lane_lines"]
    said, true, known = (
        x.reshape(*x.shape[:-1], 4, 33, 2)[..., 0]
        for x in (outputs[..., places("lane_lines")[0]], numbers[..., span], weights[..., span])
    )
    index, share = neighbours(X_IDXS, distance)
    error = said - true
    sideways = (error[..., index] * (1 - share) + error[..., index + 1] * share).abs()
    counted = (known[..., index + 1] > 0).float()
    return ((sideways * counted).sum() / counted.sum().maximum(1)).contiguous()


def speed_error(outputs: Tensor, numbers: Tensor) -> Tensor:
    """Mean error of the car's own speed, a scalar in m/s."""
    said, true = outputs[..., places("pose")[0]], numbers[..., target_spans()["pose"]]
    return (said[..., 0] - true[..., 0]).abs().mean().contiguous()


def chance_loss(outputs: Tensor, chances: Tensor) -> Tensor:
    """Binary cross entropy of the yes-or-no heads."""
    logits = _columns(outputs, [_SLICES[head] for head in CHANCES])
    weights = np.concatenate(
        [np.full(_width(head), share / _width(head)) for head, share in CHANCES.items()]
    )
    loss = logits.maximum(0) - logits * chances + (1 + (-logits.abs()).exp()).log()
    return (
        (loss * Tensor(weights.astype(np.float32), device=outputs.device))
        .sum(-1)
        .mean()
        .contiguous()
    )


def choice_loss(outputs: Tensor, choices: Tensor) -> Tensor:
    """Cross entropy of the one-of-eight heads, `choices` one-hot."""
    losses: list[Tensor] = []
    start = 0
    for head, share in CHOICES.items():
        width = _width(head)
        shape = (*outputs.shape[:-1], width // 8, 8)
        shares = outputs[..., _SLICES[head]].reshape(shape).log_softmax(-1)
        wanted = choices[..., start : start + width].reshape(shape)
        losses.append(-(shares * wanted).sum(-1).mean() * share)
        start += width
    return losses[0].stack(*losses[1:]).sum().contiguous()


def _width(head: str) -> int:
    return len(range(_SLICES[head].start, _SLICES[head].stop))
