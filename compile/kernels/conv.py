"""Direct convolution, pointwise convolution and matrix product: one register-tiled template."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from compile.kernels import epilogue
from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import BLOCKED, LANES, MapShape, blocks_of, ceil_div
from compile.kernels.pixels import Pixels

# Sums of 16 lanes that stay in registers. AVX-512: 32 registers less those for weights and the
# broadcast input. AVX2 has 16 of half the width, NEON 32 of a quarter of it.
_MAX_SUMS_WIDE, _MAX_SUMS_NARROW = 28, 6
# Weights beyond this come from the second-level cache for every tile, a vector in so many cycles.
_NEAR_CACHE_BYTES, _FAR_CACHE_CYCLES = 32 << 10, 4 / 3
# A work-item should take at least about this long, so that handing it out costs little.
_MIN_ITEM_CYCLES = 4000


@dataclass(frozen=True)
class Convolution:
    """A two-dimensional convolution and what follows it: all that decides its kernel.

    Pairs are (vertical, horizontal); pads are top, left (bottom and right follow from the sizes).
    `in_offset` is where the first input channel lies in the tensor, in elements: a Split or Slice
    of channels that is read in place; `in_map` is then the whole tensor. `upscale` makes it a
    transposed convolution whose kernel is as large as its stride: a pointwise convolution with
    one set of weights for each place in the square of outputs that an input pixel becomes.
    `matrix`: the weights are no constants but a (channels in, channels out) matrix for each item
    of the batch, stored by rows; channels out are whole blocks then. With `pixels` the input is of
    bytes, in ONNX's layout. `apart`: each group has an input of its own, and `in_map` is one of
    them; a group's channels out are whole blocks.
    """

    in_map: MapShape
    in_channels: int
    out_map: MapShape
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: tuple[int, int]
    groups: int
    in_layout: str
    out_layout: str
    steps: tuple[str, ...] = ()
    in_offset: int = 0
    upscale: tuple[int, int] = (1, 1)
    matrix: bool = False
    pixels: Pixels | None = None
    apart: bool = False

    @property
    def per_group(self) -> int:
        """Channels that an output is made of."""
        return self.in_channels // self.groups

    def one_group(self) -> "Convolution":
        """One of its groups as a convolution of its own, by sizes."""
        out = replace(self.out_map, channels=self.out_map.channels // self.groups)
        return replace(self, in_channels=self.per_group, out_map=out, groups=1, apart=False)

    def window_values(self) -> dict[str, int]:
        """What the templates need of the window: size, stride, dilation, leading padding."""
        return {
            "KERNEL_HEIGHT": self.kernel[0],
            "KERNEL_WIDTH": self.kernel[1],
            "STRIDE_Y": self.stride[0],
            "STRIDE_X": self.stride[1],
            "DILATION_Y": self.dilation[0],
            "DILATION_X": self.dilation[1],
            "PAD_TOP": self.pads[0],
            "PAD_LEFT": self.pads[1],
        }

    @property
    def macs(self) -> int:
        """Multiply-accumulates by ONNX's definition, padding counted."""
        outputs = self.out_map.batch * self.out_map.pixels * self.out_map.channels
        return outputs * self.per_group * math.prod(self.kernel)

    @property
    def is_pointwise(self) -> bool:
        """Whether every output pixel is made of the one input pixel at its place."""
        same_size = (self.in_map.height, self.in_map.width) == (
            self.out_map.height,
            self.out_map.width,
        )
        return same_size and self.kernel == self.stride == (1, 1) and self.pads == (0, 0)

    @property
    def rows(self) -> tuple[int, int, int]:
        """Output rows, outputs a row, inputs a row; a pointwise map is one long row."""
        if self.is_pointwise:
            return 1, self.out_map.pixels, self.in_map.pixels
        height, width = self.out_map.height, self.out_map.width
        return height // self.upscale[0], width // self.upscale[1], self.in_map.width


@dataclass(frozen=True, order=True)
class Tile:
    """16 x `blocks` channels of `pixels` outputs in registers; `span` tiles per work-item."""

    blocks: int
    pixels: int
    span: int = 1


def group_blocks(conv: Convolution) -> int:
    """Blocks of output channels in a group."""
    return blocks_of(conv.out_map.channels // conv.groups)


def all_blocks(conv: Convolution) -> int:
    """Blocks of output channels, times the places of an upscaling kernel."""
    return conv.groups * group_blocks(conv) * math.prod(conv.upscale)


def max_sums(native_width: int) -> int:
    """How many sums of 16 lanes fit a device whose vectors natively hold so many floats."""
    return _MAX_SUMS_WIDE if native_width >= LANES else _MAX_SUMS_NARROW


def candidates(conv: Convolution, sums: int = _MAX_SUMS_WIDE) -> list[Tile]:
    """Tiles of at most `sums` registers, best first by the cost model."""
    _, width, _ = conv.rows
    blocks = group_blocks(conv)
    tiles = [
        _with_span(conv, b, pixels)
        for b in range(1, min(blocks, 8, sums) + 1)
        if blocks % b == 0
        # One vector of weights for each block needs a register, too.
        for pixels in range(1, min(sums // b, (sums + 2) // b - 1, width) + 1)
    ]
    return sorted(tiles, key=lambda tile: (cycles(conv, tile), tile))


def cycles(conv: Convolution, tile: Tile) -> float:
    """Estimated cycles for the whole convolution on a core with two vector units.

    Two multiply-adds and two loads start in each cycle; a chain of sums needs 4 cycles per step,
    so that fewer than 8 sums leave the units waiting.
    """
    height, width, _ = conv.rows
    steps = conv.per_group * math.prod(conv.kernel)
    row = sum(
        _tile_cycles(tile.blocks, pixels, steps) for pixels in tile_widths(width, tile.pixels)
    )
    groups = all_blocks(conv) // tile.blocks
    # A last tile that is smaller is a second variant to compile.
    uneven = 1.02 if width % tile.pixels else 1.0
    return conv.out_map.batch * height * groups * row * uneven


def _tile_cycles(blocks: int, pixels: int, steps: int) -> float:
    sums = blocks * pixels
    step = max(sums / 2, (blocks + pixels) / 2, 4.0)
    if blocks * steps * LANES * 4 > _NEAR_CACHE_BYTES:
        step = max(step, blocks * _FAR_CACHE_CYCLES)
    return steps * step + 2 * sums + 20


def tile_widths(width: int, pixels: int) -> Iterator[int]:
    """Outputs of each tile in a row; the last may be smaller."""
    yield from [pixels] * (width // pixels)
    if width % pixels:
        yield width % pixels


def _with_span(conv: Convolution, blocks: int, pixels: int) -> Tile:
    height, width, _ = conv.rows
    steps = conv.per_group * math.prod(conv.kernel)
    tiles = ceil_div(width, pixels)
    span = ceil_div(_MIN_ITEM_CYCLES, int(_tile_cycles(blocks, pixels, steps)))
    others = conv.out_map.batch * height * (all_blocks(conv) // blocks)
    # At least eight work-items, or the cores cannot share the work.
    at_least = max(1, ceil_div(8, others))
    return Tile(blocks, pixels, max(1, min(span, tiles, tiles // at_least)))


def render(conv: Convolution, tile: Tile) -> Kernel:
    """The kernel for `conv`; parameters are output, inputs, weights and the steps' operands."""
    height, width, in_width = conv.rows
    per_group, inputs = conv.per_group, conv.groups if conv.apart else 1
    tiles = ceil_div(width, tile.pixels)
    name = name_of(conv)
    into, out = conv.in_map.strides(conv.in_layout), conv.out_map.strides(conv.out_layout)
    values: dict[str, int | str] = {
        "BLOCKS": tile.blocks,
        "PIXELS": tile.pixels,
        "SPAN": tile.span,
        "TILES": tiles,
        # More would cost more time in OpenCL's compiler than it gains here.
        "CHANNEL_UNROLL": 2 if conv.kernel == (1, 1) else 1,
        **conv.window_values(),
        "IN_HEIGHT": 1 if conv.is_pointwise else conv.in_map.height,
        "IN_WIDTH": in_width,
        "OUT_HEIGHT": height,
        "OUT_WIDTH": width,
        "IN_BLOCKS": per_group // LANES,
        "IN_TAIL": per_group % LANES,
        "WEIGHT_STEP": conv.out_map.channels if conv.matrix else LANES,
        "WEIGHT_BLOCK": LANES if conv.matrix else per_group * math.prod(conv.kernel) * LANES,
        "WEIGHT_BATCH": per_group * conv.out_map.channels if conv.matrix else 0,
        "GROUP_OUT_BLOCKS": group_blocks(conv),
        "GROUP_IN_OFFSET": 0 if conv.apart else per_group // LANES * into["BLOCK"],
        "INPUTS": ", ".join(f"__global const INPUT *restrict in{n}" for n in range(inputs)),
        "INPUT_OF(group)": "".join(f"(group) == {n} ? in{n} : " for n in range(inputs - 1))
        + f"in{inputs - 1}",
        "IN_OFFSET": conv.in_offset,
        **input_defines(conv),
        "ROW_CHANNELS": min(per_group, LANES),
        "ROW_VALUES": (tile.pixels - 1) * conv.stride[1]
        + (conv.kernel[1] - 1) * conv.dilation[1]
        + 1,
        **{f"IN_{k}": v for k, v in into.items()},
        **{f"OUT_{k}": v for k, v in out.items()},
        "OUT_BLOCKS": conv.groups * group_blocks(conv),
        "OUT_LANES(b)": _lanes(conv),
        "OUT_PIXEL_AT(place, y, x)": pixel_at(conv),
        # From an output to its right neighbour in the tile.
        "OUT_STEP": conv.upscale[1] * out["PIXEL"],
        "DISPATCH": dispatch(conv, tile),
    }
    source = epilogue.render(conv.steps) + defines(values)
    source += template("vectors", "lanes", "conv")
    size = (
        ceil_div(tiles, tile.span),
        conv.out_map.batch * height,
        all_blocks(conv) // tile.blocks,
    )
    return make_kernel(name, source, size, macs=conv.macs)


def input_defines(conv: Convolution) -> dict[str, int | str]:
    """What the templates need of the input's elements."""
    if conv.pixels is None:
        return {"INPUT": "float", "IN_BYTES": 0}
    return conv.pixels.defines(conv.per_group, conv.in_map.pixels)


def name_of(conv: Convolution) -> str:
    """What people call the kernel: its kind and sizes."""
    kind = "pointwise" if conv.is_pointwise else f"conv{conv.kernel[0]}x{conv.kernel[1]}"
    sizes = f"{conv.in_channels}_{conv.out_map.channels}_{conv.out_map.height}x{conv.out_map.width}"
    return f"{kind}_{sizes}"


def pixel_at(conv: Convolution) -> str:
    """Which output pixel a row and a column of the tile are, in the given place of an upscale."""
    up, left = conv.upscale
    row = f"((y) * {up} + (place) / {left})"
    return f"({row} * {conv.out_map.width} + (x) * {left} + (place) % {left})"


def _lanes(conv: Convolution) -> str:
    channels = conv.out_map.channels
    if conv.out_layout == BLOCKED or channels % LANES == 0:
        return str(LANES)
    return f"({channels} - (b) * {LANES})"


def dispatch(conv: Convolution, tile: Tile) -> str:
    """Which variant of the tile a column needs.

    Inside, no index is checked. Where only one tile at each end crosses the border, its column is
    a constant and the compiler drops the checks with the multiplications they guard. Rows of bytes
    are read with their padding: only what is written is checked, and that for all tiles.
    """
    _, width, in_width = conv.rows
    tiles = ceil_div(width, tile.pixels)
    if conv.pixels is not None:
        return _tile_call(f"t * {tile.pixels}", int(width % tile.pixels > 0))
    crossing = [t for t in range(tiles) if _crosses(conv, tile, t, width, in_width)]
    inner = [t for t in range(tiles) if t not in crossing]
    if len(crossing) <= 4:
        branches = [(f"t == {t}", str(t * tile.pixels), 1) for t in crossing]
    else:
        left = sum(1 for t in crossing if t < tiles / 2) if inner else tiles
        right = tiles - (len(crossing) - left)
        branches = [(f"t < {left} || t >= {right}", f"t * {tile.pixels}", 1)]
    if inner:
        branches.append(("1", f"t * {tile.pixels}", 0))
    return " else ".join(
        f"if ({condition}) {_tile_call(column, checked)}" for condition, column, checked in branches
    )


def _tile_call(column: str, checked: int) -> str:
    return f"tile(out, in, weights ARGUMENTS, base, row, block, {column}, {checked});"


def _crosses(conv: Convolution, tile: Tile, t: int, width: int, in_width: int) -> bool:
    first = t * tile.pixels * conv.stride[1] - conv.pads[1]
    column = t * tile.pixels + tile.pixels - 1
    last = column * conv.stride[1] - conv.pads[1] + (conv.kernel[1] - 1) * conv.dilation[1]
    return first < 0 or last >= in_width or column >= width
