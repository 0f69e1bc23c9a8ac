"""A pointwise convolution and the depthwise convolution after it, without the map in between.

The map in between is several times as large as those around it: written and read once more, it
takes longer than it takes to compute.
"""

import math
from dataclasses import dataclass

from compile.kernels import epilogue
from compile.kernels.conv import Convolution
from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import BLOCKED, LANES, MapShape, blocks_of, ceil_div

# Smaller maps stay in the cache between two launches, of which each has the better tiles.
_LEAST_BYTES = 1 << 20
# What rows between may take of the nearest cache, and the stack, in bytes.
_MOST_BYTES = 32 << 10
# Work-items that the cores share; each computes rows again that its neighbour has, too.
_ITEMS = 16


@dataclass(frozen=True)
class Expansion:
    """`depthwise` of what `expand` gives. The per-channel operands of `depthwise` are numbered on
    from those of `expand`, whose steps read no tensors."""

    expand: Convolution
    depthwise: Convolution

    @property
    def between(self) -> MapShape:
        """The map in between."""
        return self.depthwise.in_map

    @property
    def fits(self) -> bool:
        """Whether it pays: the rows in between fit the nearest cache, the map does not fit any."""
        rows = self.rows * self.row_length * LANES * 4
        return rows <= _MOST_BYTES and 4 * math.prod(self.between.stored(BLOCKED)) >= _LEAST_BYTES

    @property
    def rows(self) -> int:
        """Rows in between that one output row is made of."""
        return (self.depthwise.kernel[0] - 1) * self.depthwise.dilation[0] + 1

    @property
    def row_length(self) -> int:
        """Pixels of such a row with its padding."""
        last = self.depthwise
        reach = (last.out_map.width - 1) * last.stride[1]
        reach += (last.kernel[1] - 1) * last.dilation[1] + 1
        return max(reach, last.pads[1] + last.in_map.width)


def render(spec: Expansion, expand_pixels: int, depthwise_pixels: int) -> Kernel:
    """The kernel; parameters are output, input, weights of both, and the steps' operands.

    At most so many pixels of either convolution are in registers at a time.
    """
    first, last = spec.expand, spec.depthwise
    into, out = first.in_map, last.out_map
    blocks = blocks_of(out.channels)
    band = _band(out.height, blocks * out.batch)
    expand_tiles, expand_pixels = _split(into.width, expand_pixels)
    depthwise_tiles, depthwise_pixels = _split(out.width, depthwise_pixels)
    values: dict[str, int | str] = {
        "EXPAND_EPILOGUE": epilogue.body(first.steps),
        "EXPAND_TILES": expand_tiles,
        "EXPAND_PIXELS": expand_pixels,
        "DEPTHWISE_TILES": depthwise_tiles,
        "DEPTHWISE_PIXELS": depthwise_pixels,
        "BAND": band,
        "ROWS": spec.rows,
        "ROW_LENGTH": spec.row_length,
        **last.window_values(),
        "IN_CHANNELS": first.in_channels,
        "IN_HEIGHT": into.height,
        "IN_WIDTH": into.width,
        **{f"IN_{k}": v for k, v in into.strides(first.in_layout).items()},
        "OUT_HEIGHT": out.height,
        "OUT_WIDTH": out.width,
        "OUT_BLOCK": out.pixels * LANES,
        "OUT_CHANNEL": 1,
        "BLOCKS": blocks,
    }
    source = epilogue.render(last.steps, before=first.steps) + defines(values)
    source += template("vectors", "lanes", "expand")
    kernel = f"{last.kernel[0]}x{last.kernel[1]}"
    name = f"expand_{first.in_channels}_depthwise{kernel}_{out.channels}_{out.height}x{out.width}"
    macs = first.macs + out.batch * out.pixels * out.channels * math.prod(last.kernel)
    return make_kernel(name, source, (blocks, ceil_div(out.height, band), out.batch), macs=macs)


def _split(width: int, most: int) -> tuple[int, int]:
    """Into how many tiles of how many pixels a row is cut; tiles may overlap."""
    tiles = ceil_div(width, most)
    return tiles, ceil_div(width, tiles)


def _band(height: int, others: int) -> int:
    """Output rows of a work-item."""
    return ceil_div(height, min(height, ceil_div(_ITEMS, others)))
