"""Depthwise convolution: one kernel per channel, sixteen channels a vector."""

import math

import numpy as np

from compile.kernels import epilogue
from compile.kernels.conv import Convolution, Tile, dispatch, tile_widths
from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import LANES, Array, blocks_of, ceil_div, pad_channels

# Sums in registers; the rest holds a row of the kernel and the inputs that it slides over.
_MAX_SUMS = 16
_MIN_ITEM_CYCLES = 3000


def pack_weights(weights: Array) -> Array:
    """(C, 1, KH, KW) as the kernel reads it: blocks of 16 channels; in it KH, KW, channel."""
    padded = pad_channels(weights[:, 0])
    blocks = padded.reshape(-1, LANES, *weights.shape[2:]).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(blocks.reshape(-1), np.float32)


def candidates(conv: Convolution, sums: int = _MAX_SUMS) -> list[Tile]:
    """Tiles of at most `sums` registers, best first by the cost model."""
    _, width, _ = conv.rows
    most = min(_MAX_SUMS, sums, width)
    tiles = [_with_span(conv, pixels) for pixels in range(1, most + 1)]
    return sorted(tiles, key=lambda tile: (cycles(conv, tile), tile))


def cycles(conv: Convolution, tile: Tile) -> float:
    """Estimated cycles for the whole convolution on one core."""
    height, width, _ = conv.rows
    row = sum(_tile_cycles(conv, pixels) for pixels in tile_widths(width, tile.pixels))
    return conv.out_map.batch * height * blocks_of(conv.out_map.channels) * row


def _tile_cycles(conv: Convolution, pixels: int) -> float:
    # Neighbouring outputs share inputs: a row of the kernel loads each of them once.
    loads = (pixels - 1) * min(conv.stride[1], conv.kernel[1]) + 2 * conv.kernel[1]
    products = pixels * conv.kernel[1]
    return conv.kernel[0] * max(products / 2, loads / 2, 4.0) + 3 * pixels + 20


def _with_span(conv: Convolution, pixels: int) -> Tile:
    height, width, _ = conv.rows
    tiles = ceil_div(width, pixels)
    span = ceil_div(_MIN_ITEM_CYCLES, int(_tile_cycles(conv, pixels)))
    at_least = ceil_div(8, conv.out_map.batch * height * blocks_of(conv.out_map.channels))
    return Tile(1, pixels, max(1, min(span, tiles, tiles // at_least)))


def render(conv: Convolution, tile: Tile) -> Kernel:
    """The kernel for `conv`; parameters are output, input, weights and the steps' operands."""
    height, width, in_width = conv.rows
    blocks = blocks_of(conv.out_map.channels)
    tiles = ceil_div(width, tile.pixels)
    size = f"{conv.out_map.channels}_{height}x{width}"
    name = f"depthwise{conv.kernel[0]}x{conv.kernel[1]}_{size}"
    into, out = conv.in_map.strides(conv.in_layout), conv.out_map.strides(conv.out_layout)
    values: dict[str, int | str] = {
        "PIXELS": tile.pixels,
        "SPAN": tile.span,
        "TILES": tiles,
        **conv.window_values(),
        "IN_HEIGHT": conv.in_map.height,
        "IN_WIDTH": in_width,
        "SLIDE_WIDTH": width,
        "CHANNEL_BLOCKS": blocks,
        "IN_OFFSET": conv.in_offset,
        "IN_BATCH": into["BATCH"],
        "IN_BLOCK": into["BLOCK"],
        "OUT_BLOCK": out["BLOCK"],
        "DISPATCH": dispatch(conv, tile),
    }
    source = epilogue.render(conv.steps) + defines(values)
    source += template("vectors", "slide", "depthwise")
    grid = (ceil_div(tiles, tile.span), height, conv.out_map.batch * blocks)
    macs = conv.out_map.batch * conv.out_map.pixels * conv.out_map.channels * math.prod(conv.kernel)
    return make_kernel(name, source, grid, macs=macs)
