"""Convolutions, forwards and transposed."""

from collections.abc import Sequence
from math import prod

import numpy as np
from tinygrad import Tensor

from compile.ops.registry import Array, Context, Op
from compile.ops.window import share, windows

IntList = Sequence[int] | None


def _flat_pads(before: Sequence[int], after: Sequence[int]) -> tuple[int, ...]:
    """tinygrad lists padding from the last axis on: (left, right, top, bottom, …)."""
    pairs = reversed(list(zip(before, after, strict=True)))
    return tuple(amount for pair in pairs for amount in pair)


def conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    auto_pad: str = "NOTSET",
    dilations: IntList = None,
    group: int = 1,
    kernel_shape: IntList = None,
    pads: IntList = None,
    strides: IntList = None,
) -> Tensor:
    """Convolution of x (N, C, *spatial) with w (M, C / group, *kernel), plus bias b (M)."""
    spatial = windows(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad)
    return x.conv2d(
        w,
        b,
        groups=group,
        stride=spatial.strides,
        dilation=spatial.dilations,
        padding=_flat_pads(spatial.before, spatial.after),
    )


def _transposed_margins(
    full: Sequence[int], wanted: Sequence[int], auto_pad: str
) -> tuple[list[tuple[int, int]], list[int]]:
    """What to cut from, or to add after, a full transposed convolution to get sizes `wanted`."""
    side = "SAME_UPPER" if auto_pad == "SAME_UPPER" else "SAME_LOWER"
    surplus = [have - want for have, want in zip(full, wanted, strict=True)]
    return [share(max(s, 0), side) for s in surplus], [max(-s, 0) for s in surplus]


def conv_transpose(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    auto_pad: str = "NOTSET",
    dilations: IntList = None,
    group: int = 1,
    kernel_shape: IntList = None,
    output_padding: IntList = None,
    output_shape: IntList = None,
    pads: IntList = None,
    strides: IntList = None,
) -> Tensor:
    """Transposed convolution of x (N, C, *spatial) with w (C, M / group, *kernel)."""
    sizes, kernel = x.shape[2:], w.shape[2:]
    rank = len(sizes)
    steps, holes = tuple(strides or (1,) * rank), tuple(dilations or (1,) * rank)
    added = list(output_padding or (0,) * rank)
    full = [
        step * (size - 1) + more + (k - 1) * hole + 1
        for step, size, more, k, hole in zip(steps, sizes, added, kernel, holes, strict=True)
    ]
    if output_shape:
        margins, more = _transposed_margins(full, output_shape[-rank:], auto_pad)
        added = [a + m for a, m in zip(added, more, strict=True)]
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [size * step for size, step in zip(sizes, steps, strict=True)]
        margins, more = _transposed_margins(full, wanted, auto_pad)
        added = [a + m for a, m in zip(added, more, strict=True)]
    else:
        explicit = tuple(pads or (0,) * 2 * rank) if auto_pad != "VALID" else (0,) * 2 * rank
        margins = list(zip(explicit[:rank], explicit[rank:], strict=True))
    before, after = zip(*margins, strict=True)
    padding = _flat_pads(before, after)
    return x.conv_transpose2d(w, b, group, steps, holes, padding, tuple(added))


def col2im(
    x: Tensor,
    image_shape: Array,
    block_shape: Array,
    dilations: IntList = None,
    pads: IntList = None,
    strides: IntList = None,
    *,
    context: Context,
) -> Tensor:
    """Columns (N, C * prod(block), L) summed back into images (N, C, *image_shape).

    It is the transposed convolution whose kernels each hold a single one.
    """
    image, block = (tuple(int(v) for v in s.reshape(-1)) for s in (image_shape, block_shape))
    rank, size = len(image), prod(block)
    spatial = windows(image, block, strides, dilations, pads)
    channels = x.shape[1] // size
    kernels = np.tile(np.eye(size).reshape(size, 1, *block), (channels, *(1,) * (rank + 1)))
    return conv_transpose(
        x.reshape(x.shape[0], channels * size, *spatial.count),
        context.tensor(kernels).cast(x.dtype),
        group=channels,
        dilations=spatial.dilations,
        strides=spatial.strides,
        pads=(*spatial.before, *spatial.after),
        output_padding=[
            (have + before + after) - (step * (count - 1) + (k - 1) * hole + 1)
            for have, before, after, step, count, k, hole in zip(
                image,
                spatial.before,
                spatial.after,
                spatial.strides,
                spatial.count,
                block,
                spatial.dilations,
                strict=True,
            )
        ],
    )


def causal_conv_with_state(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    past_state: Tensor | None = None,
    activation: str = "none",
) -> tuple[Tensor, Tensor]:
    """Depthwise convolution over x (N, C, L) that sees only the past; returns the next state."""
    channels, _, taps = w.shape
    if past_state is None:
        past_state = Tensor.zeros(x.shape[0], channels, taps - 1, dtype=x.dtype, buffer=False)
    sequence = past_state.cat(x, dim=2) if taps > 1 else x
    y = sequence.conv2d(w, bias, groups=channels)
    if activation in ("silu", "swish"):
        y = y * y.sigmoid()
    elif activation != "none":
        raise ValueError(f"activation {activation!r} is none of none, silu, swish")
    length = sequence.shape[2]
    return y, sequence.shrink((None, None, (length - taps + 1, length)))


OPS = (
    Op("Conv", conv),
    Op("ConvTranspose", conv_transpose),
    Op("Col2Im", col2im, constants=(1, 2), context=True),
    Op("CausalConvWithState", causal_conv_with_state),
)
