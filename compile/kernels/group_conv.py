"""Convolutions and matrix products for GPUs: work-groups that share weights in local memory.

The weights are packed as for the register-tiled template, so that the graph is the same for all
device classes. Proven on OpenCL implementations of processors; not timed on any GPU.
"""

import math

from compile.kernels import epilogue
from compile.kernels.conv import (
    Convolution,
    all_blocks,
    group_blocks,
    input_defines,
    name_of,
    pixel_at,
)
from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import LANES, ceil_div

# Work-items of a group, one wavefront of the widest devices, and pixels that each computes: with
# 16 channels they need 32 registers for sums.
_GROUP, _PIXELS = 64, 2


def fits(spec: object) -> bool:
    """Whether the kernel can do it: a convolution, but not in groups of channels."""
    return isinstance(spec, Convolution) and spec.groups == 1


def render(conv: Convolution) -> Kernel:
    """The kernel for `conv`; parameters are output, input, weights and the steps' operands."""
    height, width, in_width = conv.rows
    into, out = conv.in_map.strides(conv.in_layout), conv.out_map.strides(conv.out_layout)
    taps = math.prod(conv.kernel)
    values: dict[str, int | str] = {
        "GROUP": _GROUP,
        "PIXELS": _PIXELS,
        **conv.window_values(),
        "IN_HEIGHT": 1 if conv.is_pointwise else conv.in_map.height,
        "IN_WIDTH": in_width,
        "OUT_PIXELS": height * width,
        "OUT_WIDTH": width,
        "OUT_CHANNELS": conv.out_map.channels,
        "OUT_BLOCKS": group_blocks(conv),
        "IN_OFFSET": conv.in_offset,
        **input_defines(conv),
        "IN_BLOCKS": conv.in_channels // LANES,
        "IN_TAIL": conv.in_channels % LANES,
        "WEIGHT_STEP": conv.out_map.channels if conv.matrix else LANES,
        "WEIGHT_BLOCK": LANES if conv.matrix else conv.in_channels * taps * LANES,
        "WEIGHT_BATCH": conv.in_channels * conv.out_map.channels if conv.matrix else 0,
        **{f"IN_{k}": v for k, v in into.items()},
        **{f"OUT_{k}": v for k, v in out.items()},
        "OUT_PIXEL_AT(place, y, x)": pixel_at(conv),
    }
    source = epilogue.render(conv.steps, "float4") + defines(values) + template("group_conv")
    tiles = ceil_div(height * width, _GROUP * _PIXELS)
    size = (tiles * _GROUP, conv.out_map.batch, all_blocks(conv))
    return make_kernel(
        f"group_{name_of(conv)}", source, size, macs=conv.macs, local_size=(_GROUP, 1, 1)
    )
