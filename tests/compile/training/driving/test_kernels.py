"""Our training kernels against tinygrad's own convolutions and their automatic gradients."""

from collections.abc import Callable

import numpy as np
import pytest
from tinygrad import Tensor

from compile.reference.topology import PIXEL_MEAN, PIXEL_SCALE, Topology
from compile.reference.weights import seeded
from compile.training.driving.kernels.layers import dense, depthwise, pointwise, stem
from compile.training.driving.model import fits, to_tensors, vision, watched

DEVICE = "CL"
RANDOM = np.random.default_rng(5)


def _numbers(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def _compare(
    ours: Callable[..., Tensor], plain: Callable[..., Tensor], *arrays: np.ndarray
) -> None:
    """Values and gradients of both, for the same weighting of the output.

    Both sum in float32 in different orders: errors grow with the root of the number of products,
    at most some 10,000 here, each about 1, so 1e-6 of the largest value is a few of them.
    """
    results = []
    weighting = None
    for function in (ours, plain):
        inputs = [Tensor(array, device=DEVICE).realize() for array in arrays]
        out = function(*inputs)
        if weighting is None:
            weighting = _numbers(*out.shape)
        loss = (out * Tensor(weighting, device=DEVICE)).sum()
        found = loss.gradient(*(x for x in inputs if x.dtype.name == "float"))
        Tensor.realize(out, *found)
        results.append([out.numpy(), *(g.numpy() for g in found)])
    for mine, wanted in zip(*results, strict=True):
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(mine, wanted, rtol=0, atol=3e-6 * scale)


def _nchw(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


def _nhwc(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1)


# Columns of three vectors and of two; rows that the tile does not divide.
@pytest.mark.parametrize(("inputs", "outputs"), [(48, 96), (32, 160)])
def test_pointwise(inputs: int, outputs: int) -> None:
    _compare(
        pointwise,
        lambda x, w, b: _nhwc(_nchw(x).conv2d(w, b).relu()),
        _numbers(3, 8, 16, inputs),
        _numbers(outputs, inputs, 1, 1),
        _numbers(outputs),
    )


def test_dense() -> None:
    _compare(
        dense,
        lambda x, w, b: x @ w + b,
        _numbers(13, 48),
        _numbers(48, 32),
        _numbers(32),
    )


def test_pointwise_without_a_rectifier() -> None:
    # As the necks: no multiple of 16 channels.
    _compare(
        lambda x, w, b: pointwise(x, w, b, relu=False),
        lambda x, w, b: _nhwc(_nchw(x).conv2d(w, b)),
        _numbers(2, 8, 16, 32),
        _numbers(12, 32, 1, 1),
        _numbers(12),
    )


def test_pointwise_with_a_residual() -> None:
    _compare(
        pointwise,
        lambda x, w, b, r: _nhwc(_nchw(x).conv2d(w, b) + _nchw(r)).relu(),
        _numbers(20, 4, 8, 32),
        _numbers(48, 32, 1, 1),
        _numbers(48),
        _numbers(20, 4, 8, 48),
    )


@pytest.mark.parametrize(("size", "stride", "height", "width"), [(5, 1, 4, 8), (3, 2, 6, 8)])
def test_depthwise(size: int, stride: int, height: int, width: int) -> None:
    _compare(
        lambda x, w, b: depthwise(x, w, b, stride),
        lambda x, w, b: _nhwc(_nchw(x).conv2d(w, b, groups=32, stride=stride, padding=size // 2)),
        _numbers(2, height, width, 32),
        _numbers(32, 1, size, size),
        _numbers(32),
    )


def test_stem() -> None:
    images = RANDOM.integers(0, 256, (2, 3, 2, 6, 8, 32), np.uint8)

    def plain(pictures: Tensor, *weights: Tensor) -> Tensor:
        pairs = pictures[:, :-1].cat(pictures[:, 1:], dim=3).reshape(4, 2, 12, 8, 32)
        scaled = (pairs.cast("float32") - PIXEL_MEAN) * PIXEL_SCALE
        sides = [
            scaled[:, camera].conv2d(weights[camera], weights[2 + camera], stride=2, padding=1)
            for camera in range(2)
        ]
        return _nhwc(sides[0].cat(sides[1], dim=1).relu())

    _compare(
        lambda pictures, a, b, c, d: stem(pictures, [a, b], [c, d]),
        plain,
        images,
        _numbers(16, 12, 3, 3),
        _numbers(16, 12, 3, 3),
        _numbers(16),
        _numbers(16),
    )


@pytest.mark.slow  # tinygrad's own kernels of a whole network are compiled
def test_features_are_those_of_the_plain_network() -> None:
    topology = Topology("even", 16, (16, 32, 48, 16), (0, 1, 0, 0), (12, 24), 16, 2, 16)
    assert fits(topology)
    weights = to_tensors(seeded(topology, 3), DEVICE)
    images = RANDOM.integers(0, 256, (1, 3, 2, 6, 128, 256), np.uint8)
    ours = watched(weights, topology, Tensor(images, device=DEVICE)).numpy()[0]
    pairs = np.concatenate([images[0, :-1], images[0, 1:]], axis=2)
    sides = (Tensor(np.ascontiguousarray(pairs[:, camera]), device=DEVICE) for camera in range(2))
    plain = vision(weights, topology, *sides).numpy()
    np.testing.assert_allclose(ours, plain, rtol=0, atol=1e-5 * np.abs(plain).max())
