"""Concatenation and choice of channels, and the way into the blocked layout: channels of several
maps, in any order, become the channels of one blocked map."""

from collections.abc import Sequence
from dataclasses import dataclass

from compile.kernels import epilogue
from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import BLOCKED, LANES, MapShape, blocks_of, ceil_div

_MIN_PIXELS = 64


@dataclass(frozen=True)
class Source:
    """Channels [start, stop) of a map; the output is `scale` (vertical, horizontal) times as large,
    each pixel a rectangle of equal ones."""

    map: MapShape
    layout: str
    start: int
    stop: int
    scale: tuple[int, int] = (1, 1)


@dataclass(frozen=True)
class Mix:
    """The channels of all `sources`, one after the other, and then the `steps`."""

    sources: tuple[Source, ...]
    steps: tuple[str, ...] = ()

    @property
    def out_map(self) -> MapShape:
        """The map that is written."""
        first = self.sources[0].map
        channels = sum(source.stop - source.start for source in self.sources)
        height, width = self.sources[0].scale
        return MapShape(first.batch, channels, first.height * height, first.width * width)


def render(mix: Mix) -> Kernel:
    """The kernel for `mix`; parameters are output, one input per source, the steps' operands."""
    out = mix.out_map
    blocks = blocks_of(out.channels)
    picks = [(n, c) for n, s in enumerate(mix.sources) for c in range(s.start, s.stop)]
    cases = "\n".join(
        f"    case {block}: {_block_loop(mix, picks[block * LANES :][:LANES], block)} break;"
        for block in range(blocks)
    )
    inputs = ", ".join(f"__global const float *restrict in{n}" for n in range(len(mix.sources)))
    offsets = "\n".join(
        f"  in{n} += batch * {source.map.strides(source.layout)['BATCH']};"
        for n, source in enumerate(mix.sources)
    )
    span = min(out.pixels, max(_MIN_PIXELS, ceil_div(out.pixels, 8)))
    name = f"mix_{out.channels}_{out.height}x{out.width}"
    source = epilogue.render(mix.steps) + defines(
        {
            "LOAD_CHANNEL(array)": "load16(block, array)",
            "LOAD_TENSOR(array)": "load16(0, array + base + p * 16)",
        }
    )
    source += template("vectors")
    source += f"""
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(
    __global float *restrict out, {inputs} PARAMETERS) {{
  const int block = get_global_id(1), batch = get_global_id(2);
  const int first = get_global_id(0) * {span}, last = min(first + {span}, {out.pixels});
  const int base = (batch * {blocks} + block) * {out.pixels * LANES};
{offsets}
  switch (block) {{
{cases}
  }}
}}
"""
    return make_kernel(name, source, (ceil_div(out.pixels, span), blocks, out.batch))


def _block_loop(mix: Mix, picks: Sequence[tuple[int, int]], block: int) -> str:
    return (
        "for (int p = first; p < last; p++) { "
        f"float16 v = {_vector(mix, picks)}; EPILOGUE store16(v, 0, out + base + p * 16); }}"
    )


def _vector(mix: Mix, picks: Sequence[tuple[int, int]]) -> str:
    """The 16 channels of a pixel: one load where they are neighbours in memory."""
    first_source, first_channel = picks[0]
    source = mix.sources[first_source]
    last = first_channel + len(picks) - 1
    together = picks[-1] == (first_source, last) and first_channel % LANES == 0
    if together and source.layout == BLOCKED:
        return f"load16(0, {_address(mix, first_source, first_channel)})"
    lanes = [f"*({_address(mix, n, channel)})" for n, channel in picks]
    lanes += ["0.0f"] * (LANES - len(picks))
    return f"(float16)({', '.join(lanes)})"


def _address(mix: Mix, n: int, channel: int) -> str:
    source = mix.sources[n]
    strides = source.map.strides(source.layout)
    offset = channel // LANES * strides["BLOCK"] + channel % LANES * strides["CHANNEL"]
    return f"in{n} + {offset} + {_pixel(mix, source)} * {strides['PIXEL']}"


def _pixel(mix: Mix, source: Source) -> str:
    """The pixel of the source that output pixel `p` shows."""
    if source.scale == (1, 1):
        return "p"
    width = mix.out_map.width
    row, column = f"p / {width} / {source.scale[0]}", f"p % {width} / {source.scale[1]}"
    return f"({row} * {source.map.width} + {column})"
