"""Pictures of handwritten-looking digits, drawn from strokes: training data without a download.

Each digit is a few curves. A sample bends, turns, moves and thickens them, draws them with soft
edges on 28×28 pixels and adds noise, all from one seed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from modeld.errors import ModeldError

Array: TypeAlias = np.ndarray[Any, Any]
SIDE = 28


@dataclass(frozen=True)
class Digits:
    """`images` (N, 784) float32 from 0 (paper) to 1 (ink), row by row; `labels` (N,) int32."""

    images: Array
    labels: Array


def draw_digits(count: int, seed: int) -> Digits:
    """`count` digits, all kinds equally often (but for the rest of a division by ten)."""
    if count < 1:
        raise ModeldError(f"{count} digits are no data; draw at least 1")
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.arange(count) % 10).astype(np.int32)
    images = np.empty((count, SIDE * SIDE), np.float32)
    for digit, strokes in enumerate(_STROKES):
        places = np.flatnonzero(labels == digit)
        images[places] = _draw(strokes, len(places), generator)
    return Digits(images, labels)


class Batches:
    """Batches without end, in a new order each time around; batch n is a function of n alone.

    The order comes from a generator of its own: making batches draws nothing from the numbers of
    the training, and a resumed run needs only n.
    """

    def __init__(self, digits: Digits, size: int, seed: int) -> None:
        if not 1 <= size <= len(digits.labels):
            raise ModeldError(
                f"a batch of {size} from {len(digits.labels)} digits; use 1 to {len(digits.labels)}"
            )
        self._digits, self._size, self._seed = digits, size, seed
        self.per_epoch = len(digits.labels) // size

    def batch(self, number: int) -> Digits:
        """Batch `number`, from 0."""
        epoch, index = divmod(number, self.per_epoch)
        order = np.random.default_rng((self._seed, epoch)).permutation(len(self._digits.labels))
        chosen = order[index * self._size : (index + 1) * self._size]
        return Digits(self._digits.images[chosen], self._digits.labels[chosen])

    def starting_at(self, number: int) -> Iterator[Digits]:
        """Batch `number` and all after it."""
        while True:
            yield self.batch(number)
            number += 1


def _arc(x: float, y: float, width: float, height: float, start: float, end: float) -> Array:
    """Points on an ellipse, from angle `start` to `end` in degrees (0 right, 90 down)."""
    angles = np.radians(np.linspace(start, end, 13))
    return np.stack([x + width * np.cos(angles), y + height * np.sin(angles)], 1)


def _line(*points: tuple[float, float]) -> Array:
    return np.array(points)


# Strokes on a unit square, y down.
_STROKES: tuple[tuple[Array, ...], ...] = (
    (_arc(0.5, 0.5, 0.26, 0.38, 0, 360),),
    (_line((0.34, 0.3), (0.54, 0.12), (0.54, 0.88)),),
    (
        np.concatenate(
            [_arc(0.5, 0.34, 0.24, 0.22, 190, 380), _line((0.26, 0.87)), _line((0.76, 0.87))]
        ),
    ),
    (_arc(0.47, 0.31, 0.22, 0.19, 200, 445), _arc(0.47, 0.69, 0.25, 0.2, 275, 520)),
    (_line((0.62, 0.88), (0.62, 0.12), (0.22, 0.64), (0.8, 0.64)),),
    (
        _line((0.72, 0.13), (0.33, 0.13), (0.29, 0.46)),
        _arc(0.47, 0.65, 0.25, 0.23, 220, 510),
    ),
    (
        _arc(0.5, 0.66, 0.22, 0.21, 0, 360),
        np.concatenate([_line((0.64, 0.12)), _line((0.4, 0.34)), _line((0.28, 0.66))]),
    ),
    (_line((0.24, 0.14), (0.76, 0.14), (0.42, 0.88)),),
    (_arc(0.5, 0.31, 0.18, 0.18, 0, 360), _arc(0.5, 0.68, 0.22, 0.2, 0, 360)),
    (_arc(0.5, 0.34, 0.21, 0.21, 0, 360), _line((0.71, 0.36), (0.66, 0.62), (0.5, 0.88))),
)


def _draw(strokes: tuple[Array, ...], count: int, generator: np.random.Generator) -> Array:
    """`count` pictures (count, 784) of one digit."""
    segments = np.concatenate([np.stack([s[:-1], s[1:]], 1) for s in strokes]) - 0.5
    angle, shear = generator.normal(0, 0.12, count), generator.normal(0, 0.15, count)
    scale = generator.uniform(0.7, 0.95, (count, 2)) * SIDE
    turn = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], 1)
    bend = np.stack([np.ones(count), shear, np.zeros(count), np.ones(count)], 1)
    matrix = turn.reshape(-1, 2, 2) @ bend.reshape(-1, 2, 2) * scale[:, :, None]
    centre = SIDE / 2 + generator.normal(0, 1, (count, 2))
    # (count, segments, ends, xy) in pixels, each end moved a little by hand.
    ends = np.einsum("nij,sej->nsei", matrix, segments) + centre[:, None, None]
    ends += generator.normal(0, 0.25, ends.shape)
    half_width = generator.uniform(0.8, 1.6, (count, 1))
    ink = np.clip(half_width + 0.5 - _distances(ends), 0, 1)
    noisy = ink * generator.uniform(0.7, 1, (count, 1)) + generator.normal(0, 0.03, ink.shape)
    return np.clip(noisy, 0, 1).astype(np.float32)


def _distances(ends: Array) -> Array:
    """Distance (N, 784) of each pixel's centre from the nearest of the segments (N, S, 2, 2)."""
    row, column = np.divmod(np.arange(SIDE * SIDE), SIDE)
    pixels = np.stack([column, row], 1) + 0.5
    start, along = ends[:, :, 0], ends[:, :, 1] - ends[:, :, 0]
    nearest = np.full((len(ends), len(pixels)), np.inf)
    for s in range(ends.shape[1]):
        offset = pixels - start[:, s, None]
        length = np.maximum((along[:, s] ** 2).sum(1), 1e-9)
        share = np.clip(np.einsum("npi,ni->np", offset, along[:, s]) / length[:, None], 0, 1)
        gap = offset - share[:, :, None] * along[:, s, None]
        nearest = np.minimum(nearest, np.hypot(gap[..., 0], gap[..., 1]))
    return nearest
