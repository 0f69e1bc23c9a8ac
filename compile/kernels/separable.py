"""A depthwise convolution and the pointwise convolution after it, without the map in between."""

from dataclasses import dataclass, replace

from compile.kernels import epilogue
from compile.kernels.conv import Convolution, Tile, dispatch
from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import LANES, MapShape, blocks_of, ceil_div

# What a row between may take of the nearest cache, and the stack, in bytes.
_MOST_BYTES = 32 << 10
# Work-items that the cores share, at most and at least.
_ITEMS, _LEAST_ITEMS = 32, 8


@dataclass(frozen=True)
class Separable:
    """`pointwise` of what `depthwise` gives. The per-channel operands of `pointwise` are numbered
    on from those of `depthwise`, whose steps read no tensors."""

    depthwise: Convolution
    pointwise: Convolution

    @property
    def between(self) -> MapShape:
        """The map in between."""
        return self.depthwise.out_map

    @property
    def pointwise_row(self) -> Convolution:
        """One row of `pointwise`, which is what its tile is chosen for."""
        into, out = self.pointwise.in_map, self.pointwise.out_map
        return replace(
            self.pointwise,
            in_map=replace(into, batch=1, height=1),
            out_map=replace(out, batch=1, height=1),
        )

    @property
    def fits(self) -> bool:
        """Whether a row of all channels fits the nearest cache, and all cores get rows."""
        row = blocks_of(self.between.channels) * self.between.width
        enough = self.between.batch * self.between.height >= _LEAST_ITEMS
        return enough and row * LANES * 4 <= _MOST_BYTES


def render(spec: Separable, pixels: int, blocks: int, wide_pixels: int) -> Kernel:
    """The kernel; parameters are output, input, weights of both, and the steps' operands.

    At most `pixels` outputs of the depthwise convolution, and 16 x `blocks` channels of
    `wide_pixels` outputs of the other, are in registers at a time.
    """
    first, last = spec.depthwise, spec.pointwise
    height, width, _ = first.rows
    out_blocks = blocks_of(last.out_map.channels)
    tile = Tile(1, min(pixels, width))
    wide_tiles = ceil_div(width, wide_pixels)
    span = ceil_div(height, min(height, ceil_div(_ITEMS, first.out_map.batch)))
    into = first.in_map.strides(first.in_layout)
    values: dict[str, int | str] = {
        "DEPTHWISE_EPILOGUE": epilogue.body(first.steps),
        "PIXELS": tile.pixels,
        "TILES": ceil_div(width, tile.pixels),
        "SLIDE_WIDTH": width,
        "BLOCKS": blocks,
        "POINTWISE_TILES": wide_tiles,
        "POINTWISE_PIXELS": ceil_div(width, wide_tiles),
        "CHANNELS": last.in_channels,
        "SPAN": span,
        **first.window_values(),
        "IN_HEIGHT": first.in_map.height,
        "IN_WIDTH": first.in_map.width,
        "IN_OFFSET": first.in_offset,
        "IN_BATCH": into["BATCH"],
        "IN_BLOCK": into["BLOCK"],
        "IN_BLOCKS": blocks_of(first.out_map.channels),
        "OUT_HEIGHT": height,
        "OUT_BLOCK": last.out_map.pixels * LANES,
        "OUT_BLOCKS": out_blocks,
        "DISPATCH": dispatch(first, tile),
    }
    source = epilogue.render(last.steps, before=first.steps) + defines(values)
    source += template("vectors", "slide", "separable")
    kernel = f"{first.kernel[0]}x{first.kernel[1]}"
    sizes = f"{first.out_map.channels}_{last.out_map.channels}_{height}x{width}"
    size = (ceil_div(height, span), first.out_map.batch, 1)
    macs = first.macs + last.macs
    return make_kernel(f"separable{kernel}_{sizes}", source, size, macs=macs)
