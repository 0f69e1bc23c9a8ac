"""Maps as rows of channels, one map after the other: what detection heads end with."""

from dataclasses import dataclass

from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import BLOCKED, LANES, blocks_of, ceil_div
from compile.kernels.mix import Source

# Pixels of a work-item.
_SPAN = 64


@dataclass(frozen=True)
class Segment:
    """A map whose channels are those of all `sources`, which are whole maps of one item."""

    sources: tuple[Source, ...]

    @property
    def channels(self) -> int:
        """Channels of a pixel."""
        return sum(source.map.channels for source in self.sources)

    @property
    def pixels(self) -> int:
        """Pixels of the map."""
        return self.sources[0].map.pixels


@dataclass(frozen=True)
class Stack:
    """The pixels of all `segments` in order, each with its channels side by side."""

    segments: tuple[Segment, ...]


def render(stack: Stack) -> Kernel:
    """The kernel for `stack`; parameters are the output and one input per source."""
    functions, branches, count, items, base = [], [], 0, 0, 0
    for n, segment in enumerate(stack.segments):
        names = [f"in{count + i}" for i in range(len(segment.sources))]
        functions.append(_function(n, segment, names))
        last = items + ceil_div(segment.pixels, _SPAN)
        arguments = ", ".join([f"out + {base}", *names])
        branches.append(f"if (item < {last}) segment{n}({arguments}, (item - {items}) * {_SPAN});")
        count, items, base = count + len(names), last, base + segment.pixels * segment.channels
    inputs = "".join(f",\n    __global const float *restrict in{i}" for i in range(count))
    source = (
        defines({"OUT_CHANNEL": 1})
        + template("vectors", "lanes")
        + "".join(functions)
        + "\n__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(\n"
        + f"    __global float *restrict out{inputs}) {{\n  const int item = get_global_id(0);\n  "
        + "\n  else ".join(branches)
        + "\n}\n"
    )
    widest = max(segment.channels for segment in stack.segments)
    return make_kernel(f"stack_{base // widest}x{widest}", source, (items, 1, 1))


def _function(n: int, segment: Segment, names: list[str]) -> str:
    lines, channel = [], 0
    for name, source in zip(names, segment.sources, strict=True):
        for block in range(blocks_of(source.map.channels)):
            lanes = min(LANES, source.map.channels - block * LANES)
            vector = _vector(name, source, block, lanes)
            lines.append(f"    store_lanes({vector}, out + p * {segment.channels} + {channel}, ")
            lines[-1] += f"{lanes});\n"
            channel += lanes
    inputs = ", ".join(f"__global const float *restrict {name}" for name in names)
    return f"""
static void segment{n}(__global float *restrict out, {inputs}, const int first) {{
  for (int p = first; p < min(first + {_SPAN}, {segment.pixels}); p++) {{
{"".join(lines)}  }}
}}
"""


def _vector(name: str, source: Source, block: int, lanes: int) -> str:
    if source.layout == BLOCKED:
        return f"load16(p + {block * source.map.pixels}, {name})"
    first = block * LANES
    values = [f"{name}[p + {(first + i) * source.map.pixels}]" for i in range(lanes)]
    return f"(float16)({', '.join(values + ['0.0f'] * (LANES - lanes))})"
