"""The operators of the private domain: each puts one of our kernels into the tinygrad graph."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tinygrad import Tensor

from compile.kernels import (
    attention,
    conv,
    copy,
    depthwise,
    elementwise,
    expand,
    gemv,
    group_conv,
    joint,
    mix,
    planar,
    pool,
    recurrent,
    resize,
    rows,
    separable,
    stack,
    winograd,
)
from compile.kernels.launch import Kernel, launch
from compile.kernels.layout import BLOCKED, NCHW
from compile.kernels.spec import decode
from compile.ops.indexing import stack as stacked
from compile.ops.registry import Context, Op

DOMAIN = "ai.modeld"

Size = Sequence[int]
Made = tuple[Kernel, tuple[int, ...]]


def _convolution(spec: str, tile: Size, shape: Size) -> Made:
    described = decode(conv.Convolution, spec)
    kernel = conv.render(described, conv.Tile(*tile))
    return kernel, tuple(shape) or described.out_map.stored(described.out_layout)


def _group_convolution(spec: str, tile: Size, shape: Size) -> Made:
    described = decode(conv.Convolution, spec)
    out = tuple(shape) or described.out_map.stored(described.out_layout)
    return group_conv.render(described), out


def _depthwise(spec: str, tile: Size, shape: Size) -> Made:
    described = decode(conv.Convolution, spec)
    kernel = depthwise.render(described, conv.Tile(*tile))
    return kernel, described.out_map.stored(BLOCKED)


def _expansion(spec: str, tile: Size, shape: Size) -> Made:
    described = decode(expand.Expansion, spec)
    return expand.render(described, *tile), described.depthwise.out_map.stored(BLOCKED)


def _separable(spec: str, tile: Size, shape: Size) -> Made:
    described = decode(separable.Separable, spec)
    return separable.render(described, *tile), described.pointwise.out_map.stored(BLOCKED)


def _planar(spec: str, tile: Size, shape: Size) -> Made:
    described = decode(planar.Planar, spec)
    return planar.render(described, *tile), described.conv.out_map.stored(NCHW)


def _elementwise(spec: str, tile: Size, shape: Size) -> Made:
    described = decode(elementwise.Elementwise, spec)
    return elementwise.render(described), described.shape


def _pool(spec: str, tile: Size, shape: Size) -> Made:
    described = decode(pool.Pooling, spec)
    return pool.render(described), described.out_map.stored(BLOCKED)


def _interpolate(spec: str, tile: Size, shape: Size) -> Made:
    described = decode(resize.Resize, spec)
    return resize.render(described), described.out_map.stored(described.out_layout)


def _mix(spec: str, tile: Size, shape: Size) -> Made:
    described = decode(mix.Mix, spec)
    return mix.render(described), described.out_map.stored(BLOCKED)


def _stack(spec: str, tile: Size, shape: Size) -> Made:
    return stack.render(decode(stack.Stack, spec)), tuple(shape)


def _rows(spec: str, tile: Size, shape: Size) -> Made:
    return rows.render(decode(rows.Rows, spec)), tuple(shape)


def _attention(spec: str, tile: Size, shape: Size) -> Made:
    return attention.render(decode(attention.Attention, spec)), tuple(shape)


def _winograd(spec: str, tile: Size, shape: Size) -> Made:
    described = decode(winograd.Winograd, spec)
    kernel = winograd.render(described, conv.Tile(*tile))
    return kernel, described.conv.out_map.stored(BLOCKED)


# Kernels that write one tensor of float32: (description, tile, shape) to the kernel and what it
# writes. Tile and shape are empty where the kernel has none, or its description says it.
_KERNELS: dict[str, Callable[[str, Size, Size], Made]] = {
    "Convolution": _convolution,
    "Depthwise": _depthwise,
    "DotProductAttention": _attention,
    "Elementwise": _elementwise,
    "Expansion": _expansion,
    "GroupConvolution": _group_convolution,
    "Interpolate": _interpolate,
    "Mix": _mix,
    "Planar": _planar,
    "Pool": _pool,
    "Rows": _rows,
    "Separable": _separable,
    "Stack": _stack,
    "Winograd": _winograd,
}


def _operator(name: str) -> Op:
    make = _KERNELS[name]

    def run(
        *inputs: Tensor, spec: str, tile: Size = (), shape: Size = (), context: Context
    ) -> Tensor:
        kernel, out = make(spec, tile, shape)
        return launch(kernel, [out], inputs, context.label)[0]

    return Op(name, run, domain=DOMAIN, context=True)


def _joint(*inputs: Tensor, spec: str, context: Context) -> tuple[Tensor, ...]:
    members = decode(joint.Joint, spec).members
    made = [_KERNELS[m.operator](m.spec, m.tile, m.shape) for m in members]
    types = [tensor.dtype.name for tensor in inputs]
    kernel = joint.render([kernel for kernel, _ in made], [m.inputs for m in members], types)
    return launch(kernel, [out for _, out in made], inputs, context.label)


def _copy(*inputs: Tensor, spec: str, context: Context) -> tuple[Tensor, ...]:
    described = decode(copy.Copies, spec)
    types = [inputs[item.pieces[0].source].dtype for item in described.items]
    kernel = copy.render(described, [kind.itemsize for kind in types])
    return launch(kernel, [item.shape for item in described.items], inputs, context.label, types)


def _dense(*inputs: Tensor, spec: str, context: Context) -> tuple[Tensor, ...]:
    described = decode(gemv.Products, spec)
    return launch(gemv.render(described.items), described.shapes, inputs, context.label)


def _recurrent(*inputs: Tensor, spec: str, context: Context) -> tuple[Tensor, ...]:
    """Y, the last state and LSTM's last cells."""
    described = decode(recurrent.Recurrence, spec)
    kernel = recurrent.render(described)
    shapes = [described.state_shape] * described.states
    if described.all_steps:
        outputs = [*shapes, (described.steps, *described.state_shape)]
        *last, y = launch(kernel, outputs, inputs, context.label)
        return y, *last
    weights, state = inputs[: -described.states], inputs[-described.states :]
    steps = []
    for step in range(described.steps):
        # The step lies in memory, so that all are launches of one kernel.
        number = context.stored(np.array([step], np.int32))
        state = launch(kernel, shapes, [*weights, *state, number], context.label)
        steps.append(state[0])
    ys = [stacked(steps[::-1] if back else steps, 0) for back in described.reverse]
    if len(ys) == 2:
        ys = [ys[0][:, :1].cat(ys[1][:, 1:], dim=1)]
    return ys[0], *state


def _step(x: Tensor, step: str, context: Context) -> Tensor:
    shape = tuple(int(size) for size in x.shape)
    kernel = elementwise.render(elementwise.Elementwise(shape, NCHW, (step,)))
    return launch(kernel, [shape], [x], context.label)[0]


def _from_blocked(x: Tensor, channels: int) -> Tensor:
    batch, blocks, height, width, lanes = x.shape
    planes: Any = x.permute(0, 1, 4, 2, 3).reshape(batch, blocks * lanes, height, width)
    return planes.shrink(((0, batch), (0, channels), (0, height), (0, width)))


OPS = (
    *(_operator(name) for name in _KERNELS),
    Op("Copy", _copy, domain=DOMAIN, context=True),
    Op("Dense", _dense, domain=DOMAIN, context=True),
    Op("FromBlocked", _from_blocked, domain=DOMAIN),
    Op("Joint", _joint, domain=DOMAIN, context=True),
    Op("Recurrent", _recurrent, domain=DOMAIN, context=True),
    Op("Step", _step, domain=DOMAIN, context=True),
)
