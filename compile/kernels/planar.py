"""Convolution to a few channels whose vectors lie along the rows of ONNX's layout.

With vectors of 16 channels a convolution to six of them does nearly three times the work, and
writes and has the next one read nearly three times the memory.
"""

from dataclasses import dataclass

from compile.kernels import epilogue
from compile.kernels.conv import Convolution, Tile
from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import LANES, NCHW, ceil_div

# With more, a block of channels is as quick: 45 against 40 us for twelve, 40 against 70 for six.
_MOST_CHANNELS = 8
# Sums beyond this number do not hide the latency any better.
_MOST_VECTORS = 8
# Work-items that the cores share.
_ITEMS = 16


@dataclass(frozen=True)
class Planar:
    """A convolution, from and to ONNX's layout, with weights packed as for blocks of channels."""

    conv: Convolution

    @property
    def fits(self) -> bool:
        """Whether the kernel can do it and blocks of channels would be mostly idle."""
        conv = self.conv
        return (
            conv.out_map.channels <= _MOST_CHANNELS
            # The weights of one block of input channels are one piece.
            and conv.in_channels <= LANES
            and conv.out_map.width >= LANES
            and conv.stride[1] <= 2
            and conv.groups == 1
            and conv.upscale == (1, 1)
            and not conv.matrix
            and conv.pixels is None
            and conv.in_layout == conv.out_layout == NCHW
            and not epilogue.operand_counts(conv.steps)[1]
        )


def tile(conv: Convolution, sums: int) -> Tile:
    """Vectors of 16 outputs a row that are computed together, on a device with so many sums."""
    channels = conv.out_map.channels
    # The inputs of a column, and one weight, need registers too.
    vectors = min((sums + 2) // (channels + 1), _MOST_VECTORS, conv.out_map.width // LANES)
    return Tile(1, max(1, vectors) * LANES)


def render(spec: Planar, vectors: int) -> Kernel:
    """The kernel; parameters are output, input, weights and the steps' operands."""
    conv = spec.conv
    into, out = conv.in_map, conv.out_map
    band = ceil_div(out.height, _ITEMS)
    values: dict[str, int | str] = {
        "CHANNELS": out.channels,
        "VECTORS": vectors,
        "TILES": ceil_div(out.width, vectors * LANES),
        "BAND": band,
        **conv.window_values(),
        "IN_CHANNELS": conv.in_channels,
        "IN_HEIGHT": into.height,
        "IN_WIDTH": into.width,
        "IN_OFFSET": conv.in_offset,
        "IN_BATCH": into.strides(NCHW)["BATCH"],
        "OUT_HEIGHT": out.height,
        "OUT_WIDTH": out.width,
        "OUT_BATCH": out.strides(NCHW)["BATCH"],
    }
    source = epilogue.render(conv.steps) + defines(values) + template("vectors", "planar")
    name = f"planar{conv.kernel[0]}x{conv.kernel[1]}_{conv.in_channels}_{out.channels}"
    name += f"_{out.height}x{out.width}"
    return make_kernel(name, source, (ceil_div(out.height, band), out.batch, 1), macs=conv.macs)
