"""Chains of elementwise operations that no other kernel could take with it."""

import math
from dataclasses import dataclass

from compile.kernels import epilogue
from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import BLOCKED, LANES, ceil_div

_SPAN = 64


@dataclass(frozen=True)
class Elementwise:
    """Steps on a tensor of the stored `shape`. Per-channel operands need the blocked layout, or a
    last axis of whole blocks."""

    shape: tuple[int, ...]
    layout: str
    steps: tuple[str, ...]


def render(spec: Elementwise) -> Kernel:
    """The kernel for `spec`; parameters are output, input and the steps' operands."""
    shape = spec.shape
    elements = math.prod(shape)
    vectors = ceil_div(elements, LANES)
    if spec.layout == BLOCKED:
        block = f"(i) / {shape[2] * shape[3]} % {shape[1]}"
    else:
        block = f"(i) % {max(1, math.prod(shape[-1:]) // LANES)}"
    span = max(1, min(_SPAN, vectors // 8))
    name = f"elementwise_{elements}"
    values: dict[str, int | str] = {
        "ELEMENTS": elements,
        "VECTORS": vectors,
        "SPAN": span,
        "CHANNEL_BLOCK(i)": block,
        "OUT_CHANNEL": 1,
    }
    source = (
        epilogue.render(spec.steps) + defines(values) + template("vectors", "lanes", "elementwise")
    )
    return make_kernel(name, source, (ceil_div(vectors, span), 1, 1))
