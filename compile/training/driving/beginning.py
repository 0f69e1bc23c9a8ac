"""Weights to begin with, fitted to a few drives so that training starts at what is to be learned.

Three things would else cost the first thousands of pictures. The biases of the outputs have to move
to the mean of what is true, and on the way the network unlearns to look at its input: half of its
rectifiers end up at zero for good. Without normalisation layers, what differs between pictures gets
smaller from layer to layer beside what they have in common. And to random filters a standing car's
two frames look like a moving one's: what one frame shows pays off sooner, and speed stays unseen.

So the output biases are set to the statistics of the targets and their weights to zero, since
answers to what is not yet understood would be noise. Every other layer is scaled so that each of
its channels has mean 0 and deviation 1 before the rectifier, as in "All you need is a good init"
(https://arxiv.org/abs/1511.06422), there without the means. And some of the first filters are
differences between the frames.
"""

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor

from compile.reference.heads import HEADS, Head, basis, output_slices, scale_and_prior
from compile.reference.topology import (
    IMAGE_CHANNELS,
    Convolution,
    Topology,
    stem_layers,
    trunk_layers,
)
from compile.reference.weights import seeded
from compile.training.driving.data import Batch, make_batch
from compile.training.driving.kernels.layers import depthwise, stem
from compile.training.driving.model import attend, remember, to_tensors
from compile.training.driving.targets import CHANCES, CHOICES, places, target_spans
from compile.training.driving.world import HEIGHT, WIDTH, paint

Array = npt.NDArray[np.float32]

_SEEN, _KNOWN = 64, 512
# Streams of drives of their own.
_STREAM = 2_000_003
# Of a frame's channels those that are luma come first.
_LUMA = 4
# Chances and shares of the statistics stay between this and one minus this.
_RAREST = 0.01


def fitted(
    topology: Topology, seed: int, seen: int = _SEEN, known: int = _KNOWN
) -> dict[str, Array]:
    """`seeded` weights, fitted. The same arguments give the same up to rounding.

    The pictures of `seen` drives are looked at, and the truth of `known` others.
    """
    weights = seeded(topology, seed)
    _see_motion(weights, topology)
    _scaled(weights, topology, drives_seen(seed, seen))
    truth = make_batch(_STREAM + seed, 1, known, 1)
    weights["trunk.coefficients.weight"] *= 0
    weights["trunk.coefficients.bias"] = output_biases(truth)
    return weights


def _see_motion(weights: dict[str, Array], topology: Topology) -> None:
    """Make a fourth of each camera's first filters the newer frame's luma minus the older's.

    In turn of a pixel and of its surroundings, with either sign: the rectifier keeps one.
    """
    pixel, around = np.pad(np.ones((1, 1)), 1), np.full((3, 3), 1 / 9)
    kinds = [sign * taps / _LUMA for taps in (pixel, around) for sign in (1, -1)]
    for layer in stem_layers(topology):
        for index, filter_ in enumerate(weights[f"{layer.name}.weight"][: topology.stem // 4]):
            older, newer = filter_[:IMAGE_CHANNELS], filter_[IMAGE_CHANNELS:]
            older[:], newer[:] = 0, 0
            newer[:_LUMA] = kinds[index % len(kinds)]
            older[:_LUMA] = -newer[:_LUMA]


def drives_seen(seed: int, count: int) -> Batch:
    """The drives whose pictures are looked at."""
    return make_batch(_STREAM + seed, 0, count, 1)


def output_biases(batch: Batch) -> Array:
    """The coefficients (COEFFICIENTS,) that say of every moment what is true on average."""
    wanted = _raw_statistics(batch)
    slices = output_slices()
    return np.concatenate([_coefficients(head, wanted[slices[head.name]]) for head in HEADS])


def _coefficients(head: Head, raw: Array) -> Array:
    if not head.terms:
        return raw
    curves = raw.reshape(head.rows, head.points, head.columns)
    fit = np.linalg.pinv(basis(head.points, head.terms)) @ curves
    return np.asarray(fit, np.float32).ravel()


def _raw_statistics(batch: Batch) -> Array:
    """Raw outputs of the mean, the deviation, the chance or the share of each target."""
    scale, prior = scale_and_prior()
    numbers, weights, chances, choices = (
        side.reshape(-1, side.shape[-1])
        for side in (batch.numbers, batch.weights, batch.chances, batch.choices)
    )
    outputs = prior.copy()
    total = np.maximum(weights.sum(0), 1e-9)
    mean = (numbers * weights).sum(0) / total
    spread = (np.abs(numbers - mean) * weights).sum(0) / total
    counted = weights.sum(0) > 0
    for head, span in target_spans().items():
        means, deviations = places(head)
        outputs[means] = np.where(counted[span], mean[span], prior[means])
        # The Laplace distribution's deviation is the root of two times its mean distance.
        log = np.log(np.sqrt(2) * np.maximum(spread[span], 1e-4))
        outputs[deviations] = np.where(counted[span], log, prior[deviations])
    chance = np.clip(chances.mean(0), _RAREST, 1 - _RAREST)
    _fill(outputs, tuple(CHANCES), np.log(chance / (1 - chance)))
    _fill(outputs, tuple(CHOICES), np.log(np.clip(choices.mean(0), _RAREST, 1)))
    return ((outputs - prior) / scale).astype(np.float32)


def _fill(outputs: Array, heads: tuple[str, ...], values: npt.NDArray[np.floating]) -> None:
    start = 0
    for head in heads:
        place = output_slices()[head]
        outputs[place] = values[start : start + place.stop - place.start]
        start += place.stop - place.start


def _scaled(weights: dict[str, Array], topology: Topology, batch: Batch) -> None:
    """Scale all layers but the last, in place."""
    images = paint(Tensor(batch.scenes), Tensor(batch.cameras)).realize()
    images = images.reshape(len(batch.desires), -1, 2, 6, HEIGHT, WIDTH)
    made = {"stem": _scaled_stem(weights, topology, images)}
    for layer in trunk_layers(topology):
        made[layer.name] = _scaled_layer(weights, layer, made)
    necks = [made[name].transpose(0, 3, 1, 2) for name in ("neck_3", "neck_4")]
    joined = np.concatenate([neck.reshape(len(neck), -1) for neck in necks], 1)
    feature = _scaled_dense(weights, "feature", joined)
    read = _joined(weights, topology, feature, batch)
    hidden = np.maximum(_scaled_dense(weights, "trunk.join", read), 0)
    _scaled_dense(weights, "trunk.mix", hidden)


def _joined(weights: dict[str, Array], topology: Topology, feature: Array, batch: Batch) -> Array:
    """What the trunk reads at the first moment of each drive, when there is no memory."""
    tensors, seen = to_tensors(weights), Tensor(feature)
    memory = remember(tensors, seen.unsqueeze(1), Tensor(batch.desires))
    memory = memory.pad(((0, 0), (weights["attention.position"].shape[0] - 1, 0), (0, 0)))
    looked = attend(tensors, topology, seen, memory).numpy()
    return np.concatenate([feature, looked, batch.traffic[:, 0], batch.action_t[:, 0]], 1)


def _scaled_stem(weights: dict[str, Array], topology: Topology, images: Tensor) -> Array:
    names = [layer.name for layer in stem_layers(topology)]
    tensors = [Tensor(weights[f"{name}.weight"]) for name in names]
    biases = [Tensor(weights[f"{name}.bias"]) for name in names]
    # The layer rectifies: what it cuts off is the rectified negative.
    positive = stem(images, tensors, biases).numpy()
    negative = stem(images, [-t for t in tensors], [-b for b in biases]).numpy()
    before = positive - negative
    mean, deviation = _statistics(before)
    for index, name in enumerate(names):
        part = slice(index * topology.stem, (index + 1) * topology.stem)
        _rescale(weights, name, np.reciprocal(deviation[part]), mean[part])
    after: Array = np.maximum((before - mean) / deviation, 0)
    return after


def _scaled_layer(weights: dict[str, Array], layer: Convolution, made: dict[str, Array]) -> Array:
    source, weight = made[layer.source], weights[f"{layer.name}.weight"]
    if layer.depthwise:
        bias = Tensor(weights[f"{layer.name}.bias"])
        out = depthwise(Tensor(source), Tensor(weight), bias, layer.stride).numpy()
    else:
        out = source @ weight[:, :, 0, 0].T + weights[f"{layer.name}.bias"]
    mean, deviation = _statistics(out)
    factor = np.reciprocal(deviation)
    if layer.residual:
        factor *= np.float32(layer.gain)
    _rescale(weights, layer.name, factor, mean)
    scaled: Array = (out - mean) * factor
    if layer.residual:
        scaled = scaled + made[layer.residual]
    return np.maximum(scaled, 0) if layer.relu else scaled


def _scaled_dense(weights: dict[str, Array], name: str, source: Array) -> Array:
    out = source @ weights[f"{name}.weight"] + weights[f"{name}.bias"]
    mean, deviation = _statistics(out)
    weights[f"{name}.weight"] = weights[f"{name}.weight"] / deviation
    weights[f"{name}.bias"] = (weights[f"{name}.bias"] - mean) / deviation
    scaled: Array = (out - mean) / deviation
    return scaled


def _statistics(out: Array) -> tuple[Array, Array]:
    """Mean and deviation of each channel, the last axis."""
    flat = out.reshape(-1, out.shape[-1])
    deviation = flat.std(0) + np.float32(1e-3)
    return flat.mean(0), deviation.astype(np.float32)


def _rescale(weights: dict[str, Array], name: str, factor: Array, mean: Array) -> None:
    weight = weights[f"{name}.weight"]
    weights[f"{name}.weight"] = weight * factor.reshape(-1, 1, 1, 1)
    weights[f"{name}.bias"] = (weights[f"{name}.bias"] - mean) * factor
