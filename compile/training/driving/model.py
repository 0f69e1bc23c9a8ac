"""The reference driving network as tinygrad tensors, from the same weights and layer tables.

Training works on sequences at the network's own 5 Hz: consecutive frames make the image pairs,
and each step looks back over the features of the steps before it, zeros where there were none,
as on a device whose queues start at zero.
"""

from collections.abc import Mapping

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.dtype import DType

from compile.reference.heads import HEADS, basis, scale_and_prior
from compile.reference.topology import (
    FEATURE,
    FEATURE_STEPS,
    IMAGE_CHANNELS,
    PIXEL_MEAN,
    PIXEL_SCALE,
    STEPS,
    Convolution,
    Topology,
    stem_layers,
    trunk_layers,
)
from compile.training.driving.kernels.layers import LANES, dense, depthwise, pointwise, stem

TensorWeights = Mapping[str, Tensor]


def is_policy(name: str) -> bool:
    """Whether a weight belongs to memory, trunk and heads; the others are the vision part."""
    return name.startswith(("attention.", "trunk."))


def vision(
    weights: TensorWeights,
    topology: Topology,
    narrow: Tensor,
    wide: Tensor,
    compute: DType = dtypes.float32,
) -> Tensor:
    """Features (N, 512) of image pairs (N, 12, 128, 256), uint8, older frame first."""
    made = {
        camera: ((images.cast(dtypes.float32) - PIXEL_MEAN) * PIXEL_SCALE).cast(compute)
        for camera, images in (("narrow", narrow), ("wide", wide))
    }
    stems = [_convolution(weights, layer, made, compute) for layer in stem_layers(topology)]
    made["stem"] = stems[0].cat(stems[1], dim=1)
    for layer in trunk_layers(topology):
        made[layer.name] = _convolution(weights, layer, made, compute)
    neck = made["neck_3"].flatten(1).cat(made["neck_4"].flatten(1), dim=1)
    return _dense(weights, "feature", neck.cast(dtypes.float32))


def _convolution(
    weights: TensorWeights, layer: Convolution, made: Mapping[str, Tensor], compute: DType
) -> Tensor:
    out = made[layer.source].conv2d(
        weights[f"{layer.name}.weight"].cast(compute),
        weights[f"{layer.name}.bias"].cast(compute),
        groups=layer.channels_in if layer.depthwise else 1,
        stride=layer.stride,
        padding=layer.kernel // 2,
    )
    if layer.residual:
        out = made[layer.residual] + out
    return out.relu() if layer.relu else out


def watched(
    weights: TensorWeights, topology: Topology, images: Tensor, compute: DType = dtypes.float32
) -> Tensor:
    """Features (S, T, 512) of each frame of images (S, T + 1, 2, 6, 128, 256) and the one before.

    On OpenCL the layers are our own kernels, on other devices tinygrad's.
    """
    sequences, steps = images.shape[0], images.shape[1] - 1
    if str(images.device).startswith("CL") and fits(topology) and compute == dtypes.float32:
        features = _vision_by_kernels(weights, topology, images)
    else:
        pairs = images[:, :-1].cat(images[:, 1:], dim=3).contiguous()
        pairs = pairs.reshape(sequences * steps, 2, 2 * IMAGE_CHANNELS, *images.shape[-2:])
        features = vision(weights, topology, pairs[:, 0], pairs[:, 1], compute)
    return features.reshape(sequences, steps, FEATURE)


def fits(topology: Topology) -> bool:
    """Whether our kernels can train it: they work on whole vectors of channels."""
    return all(width % LANES == 0 for width in (topology.stem, *topology.widths))


def _vision_by_kernels(weights: TensorWeights, topology: Topology, images: Tensor) -> Tensor:
    """`vision` on maps (N, H, W, C)."""
    names = [layer.name for layer in stem_layers(topology)]
    sides = ([weights[f"{name}.{side}"] for name in names] for side in ("weight", "bias"))
    made = {"stem": stem(images, *sides)}
    for layer in trunk_layers(topology):
        weight, bias = (weights[f"{layer.name}.{side}"] for side in ("weight", "bias"))
        source = made[layer.source]
        if layer.depthwise:
            made[layer.name] = depthwise(source, weight, bias, layer.stride)
        else:
            residual = made.get(layer.residual)
            made[layer.name] = pointwise(source, weight, bias, residual, layer.relu)
    maps = [made[name].permute(0, 3, 1, 2).flatten(1) for name in ("neck_3", "neck_4")]
    neck = maps[0].cat(maps[1], dim=1)
    return dense(neck, weights["feature.weight"], weights["feature.bias"])


def _dense(weights: TensorWeights, name: str, source: Tensor) -> Tensor:
    return source @ weights[f"{name}.weight"] + weights[f"{name}.bias"]


def remember(weights: TensorWeights, features: Tensor, desires: Tensor) -> Tensor:
    """What attention keeps of each step: (..., steps, 2 * attention), keys and values."""
    return features.cat(desires, dim=-1) @ weights["attention.memory.weight"]


def heads(
    weights: TensorWeights,
    topology: Topology,
    feature: Tensor,
    memory: Tensor,
    traffic: Tensor,
    action_t: Tensor,
) -> Tensor:
    """The predicted part of `outputs`, (N, 2066), from features (N, 512) and memory.

    `memory` is (N, 25, 2 * attention): `remember` of the 24 sampled steps before and of this one.
    """
    joined = feature.cat(attend(weights, topology, feature, memory), traffic, action_t, dim=1)
    hidden = _dense(weights, "trunk.join", joined).relu()
    hidden = _dense(weights, "trunk.mix", hidden).relu()
    parts = _dense(weights, "trunk.coefficients", hidden).split(
        [head.coefficients for head in HEADS], dim=1
    )
    raw: list[Tensor] = []
    for head, part in zip(HEADS, parts, strict=True):
        if head.terms:
            table = Tensor(basis(head.points, head.terms), device=part.device)
            part = (table @ part.reshape(-1, head.rows, head.terms, head.columns)).flatten(1)
        raw.append(part)
    scale, prior = (Tensor(side, device=feature.device) for side in scale_and_prior())
    return raw[0].cat(*raw[1:], dim=1) * scale + prior


def attend(weights: TensorWeights, topology: Topology, feature: Tensor, memory: Tensor) -> Tensor:
    """What the memory (N, 25, 2 * attention) says to features (N, 512): (N, attention)."""
    heads_, size = topology.heads, topology.attention // topology.heads
    memory = memory + weights["attention.position"]
    keys, values = memory.reshape(-1, STEPS, 2, heads_, size).permute(2, 0, 3, 1, 4).split(1)
    query = _dense(weights, "attention.query", feature).reshape(1, -1, heads_, 1, size)
    shares = (query @ keys.transpose(-1, -2)).softmax(-1)
    return (shares @ values).reshape(-1, topology.attention)


def sequence_outputs(
    weights: TensorWeights,
    topology: Topology,
    features: Tensor,
    desires: Tensor,
    traffic: Tensor,
    action_t: Tensor,
) -> Tensor:
    """`heads` at every step of sequences: features (S, T, 512) to (S, T, 2066).

    desires is (S, T, 8); traffic and action_t are (S, T, 2). Nothing lies before step 0.
    """
    sequences, steps = features.shape[:2]
    memory = remember(weights, features, desires).pad(((0, 0), (FEATURE_STEPS, 0), (0, 0)))
    windows = memory.unfold(1, STEPS, 1).transpose(2, 3)
    flat = heads(
        weights,
        topology,
        features.reshape(-1, FEATURE),
        windows.reshape(-1, STEPS, 2 * topology.attention),
        traffic.reshape(-1, 2),
        action_t.reshape(-1, 2),
    )
    return flat.reshape(sequences, steps, -1).contiguous()


def to_tensors(arrays: Mapping[str, np.ndarray], device: str | None = None) -> dict[str, Tensor]:
    """Weights as trainable tensors on `device`."""
    return {
        name: Tensor(array, device=device).is_param_(True).realize()
        for name, array in arrays.items()
    }
