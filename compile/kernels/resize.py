"""Blocked maps at another size: bilinear, or the nearest pixel."""

from dataclasses import dataclass

import numpy as np

from compile.kernels import epilogue
from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import BLOCKED, LANES, Array, MapShape, blocks_of, ceil_div

# Work-items that the cores share.
_ITEMS = 64


@dataclass(frozen=True)
class Resize:
    """`blend` says for rows and columns whether an output lies between two inputs, or is one. The
    output is blocked or in ONNX's layout."""

    in_map: MapShape
    out_map: MapShape
    blend: tuple[bool, bool]
    out_layout: str
    steps: tuple[str, ...] = ()


def pack_places(axes: tuple[tuple[Array, Array], tuple[Array, Array]]) -> Array:
    """What the kernel reads of rows and columns: (outputs of both, 2) in float32, flat.

    For each axis `axes` has the first of the two neighbouring inputs that each output lies between,
    and the weight of the second. Positions stay exact below 2^24.
    """
    pairs = [np.stack(axis, 1) for axis in axes]
    return np.concatenate(pairs).astype(np.float32).reshape(-1)


def render(resize: Resize) -> Kernel:
    """The kernel for `resize`; parameters are output, input, places and the steps' operands."""
    into, out = resize.in_map, resize.out_map
    maps = out.batch * blocks_of(out.channels)
    band = max(1, min(out.height, out.height * maps // _ITEMS))
    values: dict[str, int | str] = {
        "CHANNEL_BLOCKS": blocks_of(out.channels),
        "IN_HEIGHT": into.height,
        "IN_WIDTH": into.width,
        "OUT_HEIGHT": out.height,
        "OUT_WIDTH": out.width,
        **{f"OUT_{k}": v for k, v in out.strides(resize.out_layout).items()},
        "OUT_LANES(b)": LANES if resize.out_layout == BLOCKED else f"({out.channels} - (b) * 16)",
        "BLEND_ROWS": int(resize.blend[0]),
        "BLEND_COLUMNS": int(resize.blend[1]),
        "BAND": band,
    }
    name = f"resize_{out.channels}_{into.height}x{into.width}_{out.height}x{out.width}"
    source = (
        epilogue.render(resize.steps) + defines(values) + template("vectors", "lanes", "resize")
    )
    return make_kernel(name, source, (ceil_div(out.height, band), maps, 1))
