"""The operators of the private domain: each puts one of our kernels into the tinygrad graph."""

from collections.abc import Sequence
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
from compile.kernels.launch import launch
from compile.kernels.layout import BLOCKED, NCHW
from compile.kernels.spec import decode
from compile.ops.indexing import stack as stacked
from compile.ops.registry import Context, Op

DOMAIN = "ai.modeld"


def _convolution(
    *inputs: Tensor, spec: str, tile: Sequence[int], shape: Sequence[int] = (), context: Context
) -> Tensor:
    described = decode(conv.Convolution, spec)
    kernel = conv.render(described, conv.Tile(*tile))
    out = tuple(shape) or described.out_map.stored(described.out_layout)
    return launch(kernel, [out], inputs, context.label)[0]


def _group_convolution(
    *inputs: Tensor, spec: str, shape: Sequence[int] = (), context: Context
) -> Tensor:
    described = decode(conv.Convolution, spec)
    out = tuple(shape) or described.out_map.stored(described.out_layout)
    return launch(group_conv.render(described), [out], inputs, context.label)[0]


def _depthwise(*inputs: Tensor, spec: str, tile: Sequence[int], context: Context) -> Tensor:
    described = decode(conv.Convolution, spec)
    kernel = depthwise.render(described, conv.Tile(*tile))
    return launch(kernel, [described.out_map.stored(BLOCKED)], inputs, context.label)[0]


def _expansion(*inputs: Tensor, spec: str, tile: Sequence[int], context: Context) -> Tensor:
    described = decode(expand.Expansion, spec)
    out = described.depthwise.out_map.stored(BLOCKED)
    return launch(expand.render(described, *tile), [out], inputs, context.label)[0]


def _copy(*inputs: Tensor, spec: str, context: Context) -> tuple[Tensor, ...]:
    described = decode(copy.Copies, spec)
    types = [inputs[item.pieces[0].source].dtype for item in described.items]
    kernel = copy.render(described, [kind.itemsize for kind in types])
    return launch(kernel, [item.shape for item in described.items], inputs, context.label, types)


def _separable(*inputs: Tensor, spec: str, tile: Sequence[int], context: Context) -> Tensor:
    described = decode(separable.Separable, spec)
    out = described.pointwise.out_map.stored(BLOCKED)
    return launch(separable.render(described, *tile), [out], inputs, context.label)[0]


def _planar(*inputs: Tensor, spec: str, tile: Sequence[int], context: Context) -> Tensor:
    described = decode(planar.Planar, spec)
    out = described.conv.out_map.stored(NCHW)
    return launch(planar.render(described, *tile), [out], inputs, context.label)[0]


def _dense(*inputs: Tensor, spec: str, context: Context) -> tuple[Tensor, ...]:
    described = decode(gemv.Products, spec)
    return launch(gemv.render(described.items), described.shapes, inputs, context.label)


def _elementwise(*inputs: Tensor, spec: str, context: Context) -> Tensor:
    described = decode(elementwise.Elementwise, spec)
    return launch(elementwise.render(described), [described.shape], inputs, context.label)[0]


def _step(x: Tensor, step: str, context: Context) -> Tensor:
    shape = tuple(int(size) for size in x.shape)
    kernel = elementwise.render(elementwise.Elementwise(shape, NCHW, (step,)))
    return launch(kernel, [shape], [x], context.label)[0]


def _pool(*inputs: Tensor, spec: str, context: Context) -> Tensor:
    described = decode(pool.Pooling, spec)
    out = described.out_map.stored(BLOCKED)
    return launch(pool.render(described), [out], inputs, context.label)[0]


def _interpolate(*inputs: Tensor, spec: str, context: Context) -> Tensor:
    described = decode(resize.Resize, spec)
    out = described.out_map.stored(described.out_layout)
    return launch(resize.render(described), [out], inputs, context.label)[0]


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


def _mix(*inputs: Tensor, spec: str, context: Context) -> Tensor:
    described = decode(mix.Mix, spec)
    out = described.out_map.stored(BLOCKED)
    return launch(mix.render(described), [out], inputs, context.label)[0]


def _stack(*inputs: Tensor, spec: str, shape: Sequence[int], context: Context) -> Tensor:
    kernel = stack.render(decode(stack.Stack, spec))
    return launch(kernel, [tuple(shape)], inputs, context.label)[0]


def _rows(*inputs: Tensor, spec: str, shape: Sequence[int], context: Context) -> Tensor:
    kernel = rows.render(decode(rows.Rows, spec))
    return launch(kernel, [tuple(shape)], inputs, context.label)[0]


def _attention(*inputs: Tensor, spec: str, shape: Sequence[int], context: Context) -> Tensor:
    kernel = attention.render(decode(attention.Attention, spec))
    return launch(kernel, [tuple(shape)], inputs, context.label)[0]


def _winograd(*inputs: Tensor, spec: str, tile: Sequence[int], context: Context) -> Tensor:
    described = decode(winograd.Winograd, spec)
    out = described.conv.out_map.stored(BLOCKED)
    return launch(winograd.render(described, conv.Tile(*tile)), [out], inputs, context.label)[0]


def _from_blocked(x: Tensor, channels: int) -> Tensor:
    batch, blocks, height, width, lanes = x.shape
    planes: Any = x.permute(0, 1, 4, 2, 3).reshape(batch, blocks * lanes, height, width)
    return planes.shrink(((0, batch), (0, channels), (0, height), (0, width)))


OPS = (
    Op("Convolution", _convolution, domain=DOMAIN, context=True),
    Op("GroupConvolution", _group_convolution, domain=DOMAIN, context=True),
    Op("Depthwise", _depthwise, domain=DOMAIN, context=True),
    Op("Expansion", _expansion, domain=DOMAIN, context=True),
    Op("Copy", _copy, domain=DOMAIN, context=True),
    Op("Dense", _dense, domain=DOMAIN, context=True),
    Op("DotProductAttention", _attention, domain=DOMAIN, context=True),
    Op("Elementwise", _elementwise, domain=DOMAIN, context=True),
    Op("Interpolate", _interpolate, domain=DOMAIN, context=True),
    Op("Step", _step, domain=DOMAIN, context=True),
    Op("Planar", _planar, domain=DOMAIN, context=True),
    Op("Pool", _pool, domain=DOMAIN, context=True),
    Op("Mix", _mix, domain=DOMAIN, context=True),
    Op("Recurrent", _recurrent, domain=DOMAIN, context=True),
    Op("Rows", _rows, domain=DOMAIN, context=True),
    Op("Separable", _separable, domain=DOMAIN, context=True),
    Op("Stack", _stack, domain=DOMAIN, context=True),
    Op("Winograd", _winograd, domain=DOMAIN, context=True),
    Op("FromBlocked", _from_blocked, domain=DOMAIN),
)
