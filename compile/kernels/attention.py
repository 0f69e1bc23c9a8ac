"""Attention: the softmax of queries times keys, times values, in one kernel."""

import math
from dataclasses import dataclass, replace

from compile.kernels import epilogue
from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import LANES, MapShape, ceil_div

# Sums of a register tile are so many times the blocks of queries; keys that are taken at a time.
_TILE, _CHUNK = 8, 64
# What a work-item may take of the nearest cache, and of the stack, in bytes.
_MOST_BYTES = 48 << 10
# Work-items that the cores share, at least.
_LEAST_ITEMS = 8


@dataclass(frozen=True)
class Operand:
    """Rows of channels, one row for each position, that lie anywhere in a tensor.

    In elements: `offset` is where the first lies, the others are from one to the next: on each
    leading axis (`heads`), position, channel, and block of 16 channels. `source` is the number of
    the input.
    """

    source: int
    offset: int
    heads: tuple[int, ...]
    position: int
    channel: int
    block: int

    def in_blocks(self, shape: MapShape) -> "Operand | None":
        """The same channels of a map when it is blocked; None when they are no whole blocks."""
        step = shape.pixels * LANES
        channel, pixel = divmod(self.offset, shape.pixels)
        same = shape.batch == 1 or shape.channels % LANES == 0
        whole = not any(stride % step for stride in self.heads) and channel % LANES == 0
        if not (same and whole and (self.position, self.channel) == (1, shape.pixels)):
            return None
        offset = channel * shape.pixels + pixel * LANES
        return replace(self, offset=offset, position=LANES, channel=1, block=step)


@dataclass(frozen=True)
class Attention:
    """softmax(`scale` * query * key^T + mask) * value, for each of the leading axes' `heads`.

    Queries and keys have `width` channels, values and results `value_width`. Of the mask,
    positions are keys and channels are queries, side by side or (stride 0) all the same.
    """

    heads: tuple[int, ...]
    queries: int
    keys: int
    width: int
    value_width: int
    scale: float
    query: Operand
    key: Operand
    value: Operand
    result: Operand
    mask: Operand | None = None

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All that is read."""
        read = (self.query, self.key, self.value)
        return read if self.mask is None else (*read, self.mask)

    @property
    def blocks(self) -> int:
        """Blocks of 16 queries in a work-item: one when two would leave cores without work."""
        items = math.prod(self.heads) * ceil_div(self.queries, 2 * LANES)
        return 2 if items >= _LEAST_ITEMS else 1

    @property
    def fits(self) -> bool:
        """Whether what a work-item keeps fits the nearest cache."""
        vectors = 2 * (_CHUNK + self.width + self.value_width)
        return vectors * LANES * 4 <= _MOST_BYTES


def render(spec: Attention) -> Kernel:
    """The kernel for `spec`; parameters are the output and the inputs that operands name."""
    inputs = range(1 + max(operand.source for operand in spec.operands))
    values: dict[str, int | str] = {
        "QUERIES": spec.queries,
        "KEYS": spec.keys,
        "WIDTH": spec.width,
        "VALUE_WIDTH": spec.value_width,
        "BLOCKS": spec.blocks,
        "TILE": _TILE,
        "CHUNK": _CHUNK,
        "SCALE": epilogue.literal(spec.scale),
        "INPUTS": ", ".join(f"__global const float *restrict in{n}" for n in inputs),
        **_defines("QUERY", spec.query, spec.heads),
        **_defines("KEY", spec.key, spec.heads),
        **_defines("VALUE", spec.value, spec.heads),
        **_defines("RESULT", spec.result, spec.heads),
        # Channels of a key that lie evenly apart.
        "KEY_RUN": spec.width if spec.key.block == LANES * spec.key.channel else LANES,
        **_mask_defines(spec.mask, spec.heads),
    }
    source = epilogue.helpers((), ("exponential",)) + defines(values)
    source += template("vectors", "lanes", "attention")
    heads = math.prod(spec.heads)
    size = (ceil_div(spec.queries, spec.blocks * LANES), heads, 1)
    macs = heads * spec.queries * spec.keys * (spec.width + spec.value_width)
    name = f"attention_{heads}x{spec.queries}x{spec.keys}_{spec.width}_{spec.value_width}"
    return make_kernel(name, source, size, macs=macs)


def _defines(name: str, operand: Operand, heads: tuple[int, ...]) -> dict[str, int | str]:
    return {
        f"{name}_OF(head)": f"(in{operand.source} + {_place(operand, heads)})",
        f"{name}_AT(head)": _place(operand, heads),
        f"{name}_POSITION": operand.position,
        f"{name}_CHANNEL": operand.channel,
        f"{name}_BLOCK": operand.block,
    }


def _mask_defines(mask: Operand | None, heads: tuple[int, ...]) -> dict[str, int | str]:
    if mask is None:
        nothing: dict[str, int | str] = {"MASK_QUERY": 0, "MASK_KEY": 0, "MASK": ""}
        return {"MASK_OF(head)": "in0", **nothing, "OUT_CHANNEL": 1}
    more = "load_lanes(at + b * 16, lanes - b * 16)" if mask.channel else "(float16)(at[0])"
    return {
        "MASK_OF(head)": f"(in{mask.source} + {_place(mask, heads)})",
        "MASK_QUERY": mask.channel,
        "MASK_KEY": mask.position,
        "MASK": f"{{ __global const float *at = mask + t * MASK_KEY; v += {more}; }}",
        "OUT_CHANNEL": 1,
    }


def _place(operand: Operand, heads: tuple[int, ...]) -> str:
    """Where the rows of a head begin, of heads counted with the last axis fastest."""
    terms, count = [str(operand.offset)], 1
    for size, stride in zip(heads[::-1], operand.heads[::-1], strict=True):
        if stride:
            terms.append(f"(head) / {count} % {size} * {stride}")
        count *= size
    return f"({' + '.join(terms)})"
