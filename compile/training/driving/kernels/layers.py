"""The layers of the vision part: each a kernel, with kernels for its gradients."""

from collections.abc import Sequence

from tinygrad import Tensor

from compile.reference.topology import IMAGE_CHANNELS, PIXEL_MEAN, PIXEL_SCALE
from compile.training.driving.kernels.node import Gradient, node

LANES = 16
# Rows of one work-item, and of one partial sum: what a core's second cache holds well.
_SPAN = 192
_CHUNK = 512


def _largest(limit: int, whole: int) -> int:
    """The largest divisor of `whole` that is not above `limit`."""
    return next(n for n in range(min(limit, whole), 0, -1) if whole % n == 0)


def _blocks(channels: int) -> int:
    """Vectors of a tile's columns: three where they divide evenly, else two or one."""
    vectors = channels // LANES
    return 3 if vectors % 3 == 0 else 2 if vectors % 2 == 0 else 1


def _pack(weight: Tensor) -> Tensor:
    """(K, N) as (N / lanes, K, lanes)."""
    inputs, outputs = weight.shape
    lanes = LANES * _blocks(int(outputs))
    return weight.reshape(inputs, outputs // lanes, lanes).permute(1, 0, 2)


def _unpack(packed: Tensor) -> Tensor:
    return packed.permute(1, 0, 2).reshape(packed.shape[1], packed.shape[0] * packed.shape[2])


def _product(
    a: Tensor,
    packed: Tensor,
    extra: Sequence[Tensor] = (),
    relu: bool = False,
    gradient: Gradient | None = None,
) -> Tensor:
    """a (M, K) times a packed (K, N), plus a bias and a residual."""
    (rows, inner), (panels, _, lanes) = a.shape, packed.shape
    outputs, blocks = panels * lanes, lanes // LANES
    names = ("bias", "residual")[: len(extra)]
    values = {
        "M": rows,
        "K": inner,
        "N": outputs,
        "LANES": lanes,
        "BLOCKS": blocks,
        "ROWS": min(rows, 8 if blocks == 3 else 12),
        "SPAN": _SPAN,
        "BIAS": int("bias" in names),
        "RESIDUAL": int("residual" in names),
        "RELU": int(relu),
        "EXTRA_PARAMETERS": "".join(f", IN {name}" for name in names),
        "EXTRA_ARGUMENTS": "".join(f", {name}" for name in names),
    }
    grid = (panels, -(-rows // _SPAN))
    return node(
        "product", "product", values, grid, [(rows, outputs)], [a, packed, *extra], gradient
    )[0]


def _outer(grad: Tensor, x: Tensor) -> Tensor:
    """(CO, CI): products of grad (M, CO) and x (M, CI), summed over M."""
    (rows, outputs), inputs = grad.shape, x.shape[1]
    blocks = _blocks(inputs)
    tall = _largest(8 if blocks == 3 else 12, outputs)
    chunks = -(-rows // _CHUNK)
    values = {
        "M": rows,
        "CO": outputs,
        "CI": inputs,
        "LANES": blocks * LANES,
        "BLOCKS": blocks,
        "ROWS": tall,
        "SPAN": _CHUNK,
    }
    grid = (inputs // (blocks * LANES), outputs // tall, chunks)
    return node("outer", "outer", values, grid, [(chunks, outputs, inputs)], [grad, x])[0].sum(0)


def _rectified(grad: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient (M, C) before the rectifier that gave y, and its sum (C,)."""
    rows, channels = y.shape
    chunks = -(-rows // _CHUNK)
    values = {"M": rows, "BLOCKS": channels // LANES, "SPAN": _CHUNK}
    shapes = [(rows, channels), (chunks, channels)]
    before, sums = node("rectified", "rectified", values, (chunks,), shapes, [grad, y])
    return before, sums.sum(0)


def dense(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x (M, K) times weight (K, N), plus bias (N,); K and N are multiples of 16."""

    def gradient(
        grad: Tensor, y: Tensor, inputs: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        source, packed = inputs[:2]
        back = _product(grad, _pack(_unpack(packed).T))
        return back, _pack(_outer(source, grad)), grad.sum(0)

    return _product(x, _pack(weight), [bias], gradient=gradient)


def pointwise(
    x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None = None, relu: bool = True
) -> Tensor:
    """x W + bias + residual, rectified: x (N, H, W, CI), weight (CO, CI, 1, 1), bias (CO,)."""
    *place, inputs = x.shape
    outputs = weight.shape[0]
    padding = -outputs % LANES
    flat = weight.reshape(outputs, inputs).pad(((0, padding), (0, 0)))
    rows = x.reshape(-1, inputs)
    extra = [bias.pad((0, padding))]
    if residual is not None:
        extra.append(residual.reshape(-1, outputs))

    def gradient(
        grad: Tensor, y: Tensor, inputs_: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor] | tuple[Tensor, Tensor, Tensor, Tensor]:
        source, packed = inputs_[:2]
        before, sums = _rectified(grad, y) if relu else (grad, grad.sum(0))
        back = _product(before, _pack(_unpack(packed).T))
        found = (back, _pack(_outer(before, source).T), sums)
        return found if residual is None else (*found, before)

    y = _product(rows, _pack(flat.T), extra, relu, gradient)
    y = y.reshape(*place, outputs + padding)
    return y[..., :outputs] if padding else y


def _shape_values(x: Tensor, size: int, stride: int) -> dict[str, int | float | str]:
    _, height, width, channels = x.shape
    return {
        "SIZE": size,
        "STRIDE": stride,
        "PAD": size // 2,
        "CHANNELS": channels,
        "IN_HEIGHT": height,
        "IN_WIDTH": width,
        "OUT_HEIGHT": height // stride,
        "OUT_WIDTH": width // stride,
    }


def _filter(
    x: Tensor,
    weights: Tensor,
    size: int,
    stride: int,
    bias: Tensor | None = None,
    gradient: Gradient | None = None,
) -> Tensor:
    images, height, width, channels = x.shape
    values = _shape_values(x, size, stride) | {
        "FORWARD": 1,
        "PIXELS": _largest(8, width // stride),
        "BIAS_PARAMETER": "" if bias is None else ", IN bias",
        "START": "(float16)(0.0f)" if bias is None else "vload16(block, bias)",
    }
    shape = (images, height // stride, width // stride, channels)
    inputs = [x, weights] if bias is None else [x, weights, bias]
    grid = (channels // LANES, images)
    return node("depthwise", "depthwise", values, grid, [shape], inputs, gradient)[0]


def depthwise(x: Tensor, weight: Tensor, bias: Tensor, stride: int) -> Tensor:
    """Each channel of x (N, H, W, C) with its own kernel, weight (C, 1, size, size).

    Of stride 1, or 2 with size 3; "same" padding.
    """
    images, channels = x.shape[0], x.shape[-1]
    size = weight.shape[-1]
    blocks = channels // LANES
    packed = weight.reshape(blocks, LANES, size * size).permute(0, 2, 1)

    def gradient(
        grad: Tensor, y: Tensor, inputs: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        source, weights = inputs[:2]
        if stride == 1:
            back = _filter(grad, weights.flip(1), size, 1)
        else:
            values = _shape_values(source, size, stride) | {"GRADIENT_OF_HALVING": 1}
            back = node(
                "depthwise", "halving", values, (blocks, images), [source.shape], [grad, weights]
            )[0]
        values = _shape_values(source, size, stride) | {"GRADIENT_OF_WEIGHTS": 1}
        shape = (images, blocks, size * size + 1, LANES)
        sums = (
            node(
                "depthwise", "depthwise_weights", values, (blocks, images), [shape], [grad, source]
            )[0]
            .sum(0)
            .contiguous()
        )
        return back, sums[:, : size * size], sums[:, size * size].flatten()

    return _filter(x, packed, size, stride, bias, gradient)


def stem(images: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """relu of both cameras' 3x3 convolution of stride 2: (S T, H / 2, W / 2, 2 C).

    images is (S, T + 1, 2, 6, H, W) uint8; weights and biases are of the narrow and the wide
    camera, (C, 12, 3, 3) and (C,). Each step sees its own frame after the one before.
    """
    sequences, frames, _, _, height, width = images.shape
    steps, channels = frames - 1, weights[0].shape[0]
    pairs, blocks, taps = sequences * steps, channels // LANES, 2 * IMAGE_CHANNELS * 9
    sizes: dict[str, int | float | str] = {
        "HEIGHT": height,
        "WIDTH": width,
        "STEPS": steps,
        "BLOCKS": blocks,
    }
    planes = sequences * frames * 2 * IMAGE_CHANNELS
    values = sizes | {"UNPACK": 1, "MEAN": f"{PIXEL_MEAN}f", "SCALE": f"{PIXEL_SCALE}f"}
    shape = (planes, height + 2, width + 2)
    scaled = node("stem", "unpack", values, (planes,), [shape], [images])[0].detach()
    packed = weights[0].cat(weights[1]).reshape(2 * blocks, LANES, taps).permute(0, 2, 1)
    out = (pairs, height // 2, width // 2, 2 * channels)

    def gradient(grad: Tensor, y: Tensor, inputs: Sequence[Tensor]) -> tuple[None, Tensor, Tensor]:
        before, sums = _rectified(grad.reshape(-1, 2 * channels), y.reshape(-1, 2 * channels))
        found = node(
            "stem", "stem_weights", sizes | {"GRADIENT_OF_WEIGHTS": 1}, (2 * blocks, pairs),
            [(pairs, 2 * blocks, taps, LANES)], [before, inputs[0]],
        )[0]  # fmt: skip
        return None, found.sum(0), sums

    values = sizes | {"FORWARD": 1, "PIXELS": _largest(16, width // 2)}
    inputs = [scaled, packed, biases[0].cat(biases[1])]
    return node("stem", "stem", values, (height // 2, 2 * blocks, pairs), [out], inputs, gradient)[
        0
    ]
