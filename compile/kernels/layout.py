"""How a feature map lies in memory, and the arithmetic between layouts.

`nchw` is ONNX's own. `blocked` keeps 16 channels of a pixel together (N, C/16, H, W, 16): one
float16 vector is one pixel, for any width, stride or dilation, and channels beyond C fill the
last block (their values are not defined and nobody reads them). `nhwc` is what a matrix of rows
with features looks like when seen as a map of pixels.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

LANES = 16
NCHW, NHWC, BLOCKED = "nchw", "nhwc", "blocked"

Array = np.ndarray[Any, Any]


def ceil_div(value: int, step: int) -> int:
    """The number of `step`s that cover `value`."""
    return -(-value // step)


def blocks_of(channels: int) -> int:
    """Blocks of 16 that hold `channels`."""
    return ceil_div(channels, LANES)


@dataclass(frozen=True)
class MapShape:
    """A feature map: batch, channels, height, width, in elements."""

    batch: int
    channels: int
    height: int
    width: int

    @property
    def pixels(self) -> int:
        """Pixels of one map."""
        return self.height * self.width

    def stored(self, layout: str) -> tuple[int, ...]:
        """The shape of the tensor that holds it."""
        if layout == BLOCKED:
            return (self.batch, blocks_of(self.channels), self.height, self.width, LANES)
        if layout == NHWC:
            return (self.batch, self.height, self.width, self.channels)
        return (self.batch, self.channels, self.height, self.width)

    def strides(self, layout: str) -> dict[str, int]:
        """Elements between neighbours: batch, block of 16 channels, channel in a block, pixel."""
        if layout == BLOCKED:
            block = self.pixels * LANES
            return {
                "BATCH": blocks_of(self.channels) * block,
                "BLOCK": block,
                "CHANNEL": 1,
                "PIXEL": LANES,
            }
        batch = self.pixels * self.channels
        if layout == NHWC:
            return {"BATCH": batch, "BLOCK": LANES, "CHANNEL": 1, "PIXEL": self.channels}
        return {"BATCH": batch, "BLOCK": LANES * self.pixels, "CHANNEL": self.pixels, "PIXEL": 1}


def pad_channels(values: Array, axis: int = 0) -> Array:
    """Zeros appended along `axis` up to a whole block."""
    missing = -values.shape[axis] % LANES
    widths = [(0, missing if a == axis else 0) for a in range(values.ndim)]
    return np.pad(values, widths)


def pack_conv_weights(weights: Array, groups: int = 1) -> Array:
    """(CO, CI/groups, KH, KW) as the direct convolution reads it, one flat float32 array.

    Blocks of 16 output channels; inside, blocks of 16 input channels (the last may be smaller);
    inside, kernel row, kernel column, input channel, and the 16 output channels side by side.
    """
    per_group = weights.reshape(groups, weights.shape[0] // groups, *weights.shape[1:])
    padded = pad_channels(per_group, axis=1)
    blocks = padded.reshape(-1, LANES, *weights.shape[1:])  # (block, lane, CI, KH, KW)
    pieces = [
        blocks[:, :, start : start + LANES].transpose(0, 3, 4, 2, 1).reshape(len(blocks), -1)
        for start in range(0, weights.shape[1], LANES)
    ]
    return np.ascontiguousarray(np.concatenate(pieces, axis=1).reshape(-1), np.float32)


def unpack_conv_weights(packed: Array, shape: tuple[int, ...]) -> Array:
    """The inverse of `pack_conv_weights` for one group: (CO, CI, KH, KW)."""
    outputs, inputs, *kernel = shape
    rows = packed.reshape(blocks_of(outputs), -1)
    pieces, window = [], kernel[0] * kernel[1] * LANES
    for start in range(0, inputs, LANES):
        count = min(LANES, inputs - start)
        piece = rows[:, start * window : (start + count) * window]
        piece = piece.reshape(len(rows), *kernel, count, LANES).transpose(0, 4, 3, 1, 2)
        pieces.append(piece.reshape(-1, count, *kernel))
    return np.ascontiguousarray(np.concatenate(pieces, axis=1)[:outputs])
