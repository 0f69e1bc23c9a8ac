"""GridSample, RoiAlign, DeformConv, AffineGrid."""

from itertools import product

import numpy as np
import pytest
from single_node import assert_like_peer, refusal, run, sparsely

F = np.float32
RNG = np.random.default_rng(4)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(F)


@pytest.mark.parametrize(
    ("mode", "padding", "corners"),
    sparsely(
        product(["bilinear", "nearest", "bicubic"], ["zeros", "border", "reflection"], [0, 1]), 7
    ),
)
def test_grid_sample_in_every_mode(mode: str, padding: str, corners: int) -> None:
    grid = (RNG.random((2, 4, 5, 2)) * 3 - 1.5).astype(F)
    assert_like_peer(
        "GridSample",
        draw(2, 3, 5, 6),
        grid,
        opset=16,
        mode=mode,
        padding_mode=padding,
        align_corners=corners,
        atol=2e-5,
    )


def test_grid_sample_of_volumes() -> None:
    grid = (RNG.random((1, 3, 4, 2, 3)) * 3 - 1.5).astype(F)
    assert_like_peer("GridSample", draw(1, 2, 4, 5, 3), grid, opset=20, mode="linear", atol=2e-5)


def test_an_identity_grid_gives_the_image_back() -> None:
    image, theta = draw(1, 2, 4, 6), np.array([[[1, 0, 0], [0, 1, 0]]], F)
    grid = run("AffineGrid", theta, np.array([1, 2, 4, 6]), opset=20, known=(1,))
    np.testing.assert_allclose(run("GridSample", image, grid, opset=20), image, atol=1e-5)


REGIONS = np.array([[0, 0, 6, 6], [1, 2, 9, 8.5], [3, 3, 3.2, 3.1]], F)


@pytest.mark.parametrize(
    ("mode", "opset"), sparsely([("max", 10), ("avg", 10), ("max", 16), ("avg", 16)], 4)
)
def test_roi_align(mode: str, opset: int) -> None:
    assert_like_peer(
        "RoiAlign",
        draw(2, 3, 10, 10),
        REGIONS,
        np.array([0, 1, 0]),
        opset=opset,
        mode=mode,
        output_height=3,
        output_width=2,
        sampling_ratio=2,
        spatial_scale=0.9,
    )


def test_adaptive_sampling_needs_known_regions_of_one_size() -> None:
    inputs = (draw(1, 1, 4, 4), REGIONS, np.zeros(3, np.int64))
    options = {"opset": 16, "output_height": 1, "output_width": 2}
    assert "set sampling_ratio" in refusal("RoiAlign", *inputs, **options)
    assert "different sizes" in refusal("RoiAlign", *inputs, known=(1,), **options)
    square = np.array([[0, 0, 3, 4], [1, 0, 4, 4]], F)
    assert_like_peer("RoiAlign", inputs[0], square, np.zeros(2, np.int64), known=(1,), **options)


def test_deformable_convolution_without_offsets_is_a_convolution() -> None:
    x, w = draw(1, 4, 3, 4), draw(2, 2, 2, 2)
    offset, mask = np.zeros((1, 16, 4, 5), F), np.full((1, 8, 4, 5), 0.5, F)
    found = run(
        "DeformConv", x, w, offset, None, mask, opset=19, group=2, offset_group=2, pads=[1] * 4
    )
    plain = run("Conv", x, w, group=2, pads=[1] * 4)
    np.testing.assert_allclose(found, plain / 2, atol=1e-5)


def test_an_offset_of_one_pixel_moves_the_taps() -> None:
    x, w = draw(1, 1, 5, 6), np.ones((1, 1, 1, 1), F)
    offset = np.zeros((1, 2, 5, 6), F)
    offset[:, 1] = 1
    expected = np.pad(x, ((0, 0), (0, 0), (0, 0), (0, 1)))[..., 1:]
    np.testing.assert_allclose(run("DeformConv", x, w, offset, opset=19), expected, atol=1e-6)
