"""3 x 3 convolution by Winograd's minimal filtering F(4 x 4, 3 x 3), on blocked maps.

Four times fewer products, and sums before and after them. Lavin and Gray, "Fast algorithms for
convolutional neural networks" (2015), section 4. Errors are some ten times those of the plain sum.
"""

from dataclasses import dataclass, replace

import numpy as np

from compile.kernels import epilogue
from compile.kernels.conv import Convolution, Tile
from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import (
    BLOCKED,
    LANES,
    Array,
    MapShape,
    blocks_of,
    ceil_div,
    pad_channels,
)

# Weights to their 6 x 6 places.
_G = np.array(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ]
)
_SIDE, _PLACES = 4, 36
# What a work-item's squares may take of the second cache, and the stack, in bytes.
_MOST_BYTES = 320 << 10
# Each square of a work-item reads all weights, which are four times as many: fewer squares, or more
# bytes of weights a square, do not pay.
_LEAST_SQUARES, _MOST_WEIGHTS = 4, 1 << 20
# Nor do small maps, for which the weights come from memory once a frame.
_LEAST_ALL, _LEAST_ITEMS = 32, 4


@dataclass(frozen=True)
class Winograd:
    """A convolution, on blocked maps."""

    conv: Convolution

    @property
    def fits(self) -> bool:
        """Whether the kernel can do it, and gains by it."""
        conv = self.conv
        plain = (
            conv.kernel == (3, 3)
            and conv.stride == conv.dilation == (1, 1)
            and conv.groups == 1
            and conv.upscale == (1, 1)
            and conv.pixels is None
            and conv.in_layout == conv.out_layout == BLOCKED
        )
        # Spreading and gathering cost as much for a block that is hardly used.
        filled = min(conv.in_channels, conv.out_map.channels) >= LANES
        weights = _PLACES * conv.in_channels * conv.out_map.channels * 4
        worth = self.squares >= _LEAST_SQUARES and weights <= _MOST_WEIGHTS * self.squares
        large = self.rows >= _LEAST_ITEMS and self.rows * self.columns >= _LEAST_ALL
        return plain and filled and worth and large

    @property
    def rows(self) -> int:
        """Rows of squares."""
        return ceil_div(self.conv.out_map.height, _SIDE)

    @property
    def columns(self) -> int:
        """Squares a row."""
        return ceil_div(self.conv.out_map.width, _SIDE)

    @property
    def squares(self) -> int:
        """Squares of a work-item."""
        each = _PLACES * LANES * 4 * (blocks_of(self.conv.in_channels) + 4)
        pieces = ceil_div(self.columns, max(1, _MOST_BYTES // each))
        pieces = max(pieces, min(self.columns, ceil_div(_LEAST_ITEMS, self.rows)))
        return ceil_div(self.columns, pieces)

    @property
    def product(self) -> Convolution:
        """What is done for each place, which is what its tile is chosen for."""
        conv = self.conv
        return replace(
            conv,
            in_map=MapShape(1, conv.in_channels, 1, self.squares),
            out_map=MapShape(1, conv.out_map.channels, 1, self.squares),
            kernel=(1, 1),
            pads=(0, 0),
            in_offset=0,
            steps=(),
        )


def pack_weights(weights: Array) -> Array:
    """(CO, CI, 3, 3) as the kernel reads it: blocks of 16 channels out; in it place, channel in,
    and the 16 channels out side by side."""
    places = _G @ weights.astype(np.float64) @ _G.T  # (CO, CI, 6, 6)
    blocks = pad_channels(places).reshape(-1, LANES, weights.shape[1], _PLACES)
    return np.ascontiguousarray(blocks.transpose(0, 3, 2, 1).reshape(-1), np.float32)


def render(spec: Winograd, tile: Tile) -> Kernel:
    """The kernel; parameters are output, input, weights and the steps' operands. `tile` is that of
    a place's product."""
    conv = spec.conv
    into, out = conv.in_map.strides(BLOCKED), conv.out_map.strides(BLOCKED)
    values: dict[str, int | str] = {
        "TILES": spec.squares,
        "BLOCKS": tile.blocks,
        "PIXELS": min(tile.pixels, spec.squares),
        "PAD_TOP": conv.pads[0],
        "PAD_LEFT": conv.pads[1],
        "IN_CHANNELS": conv.in_channels,
        "IN_BLOCKS": blocks_of(conv.in_channels),
        "IN_HEIGHT": conv.in_map.height,
        "IN_WIDTH": conv.in_map.width,
        "IN_OFFSET": conv.in_offset,
        "IN_BATCH": into["BATCH"],
        "IN_BLOCK": into["BLOCK"],
        "OUT_HEIGHT": conv.out_map.height,
        "OUT_WIDTH": conv.out_map.width,
        "OUT_BLOCKS": blocks_of(conv.out_map.channels),
        "OUT_BLOCK": out["BLOCK"],
    }
    source = epilogue.render(conv.steps) + defines(values) + template("vectors", "winograd")
    sizes = f"{conv.in_channels}_{conv.out_map.channels}_{conv.out_map.height}x{conv.out_map.width}"
    grid = (ceil_div(spec.columns, spec.squares), spec.rows, conv.out_map.batch)
    return make_kernel(f"winograd3x3_{sizes}", source, grid, macs=conv.macs)
