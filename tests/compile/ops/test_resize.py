"""Resize and Upsample against ONNX Runtime, over modes, opsets and fractional scales."""

from itertools import product

import numpy as np
import pytest
from single_node import assert_like_peer, refusal, run, sparsely

F = np.float32
IMAGE = np.random.default_rng(2).standard_normal((1, 2, 6, 7)).astype(F)
MODES = ("half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def scales(*values: float) -> np.ndarray:
    return np.array([1, 1, *values], F)


@pytest.mark.parametrize(("mode", "rounding"), sparsely(product(MODES, ROUNDINGS), 5))
def test_nearest_neighbours_at_ties(mode: str, rounding: str) -> None:
    sizes = np.array([1, 2, 9, 4])
    assert_like_peer(
        "Resize",
        IMAGE,
        None,
        None,
        sizes,
        opset=13,
        known=(3,),
        coordinate_transformation_mode=mode,
        nearest_mode=rounding,
        atol=0,
    )


@pytest.mark.parametrize(("mode", "kind"), sparsely(product(MODES, ["linear", "cubic"]), 3))
def test_interpolation_to_sizes(mode: str, kind: str) -> None:
    assert_like_peer(
        "Resize",
        IMAGE,
        None,
        None,
        np.array([1, 2, 9, 4]),
        opset=19,
        known=(3,),
        coordinate_transformation_mode=mode,
        mode=kind,
        atol=1e-5,
    )


@pytest.mark.parametrize("mode", ["half_pixel", "asymmetric", "half_pixel_symmetric"])
def test_fractional_scales(mode: str) -> None:
    assert_like_peer(
        "Resize",
        IMAGE,
        None,
        scales(1.6, 0.7),
        opset=19,
        known=(2,),
        coordinate_transformation_mode=mode,
        mode="linear",
        atol=1e-5,
    )


@pytest.mark.parametrize(("kind", "outside"), sparsely(product(["linear", "cubic"], [0, 1]), 3))
def test_antialiasing(kind: str, outside: int) -> None:
    assert_like_peer(
        "Resize",
        IMAGE,
        None,
        scales(0.6, 0.4),
        opset=19,
        known=(2,),
        mode=kind,
        antialias=1,
        exclude_outside=outside,
        atol=1e-5,
    )


def test_cubic_without_outside_and_with_another_coefficient() -> None:
    options = {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5}
    inputs = (IMAGE, None, scales(1.7, 2.3))
    assert_like_peer("Resize", *inputs, opset=13, known=(2,), atol=1e-5, **options)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_the_aspect_ratio_is_kept(policy: str) -> None:
    sizes = np.array([9, 5])
    options = {"axes": [2, 3], "keep_aspect_ratio_policy": policy}
    found = run("Resize", IMAGE, None, None, sizes, opset=18, known=(3,), **options)
    factor = (min if policy == "not_larger" else max)(9 / 6, 5 / 7)
    assert found.shape == (1, 2, int(6 * factor + 0.5), int(7 * factor + 0.5))


def test_crop_and_resize_outside_of_the_image() -> None:
    roi = np.array([0, 0, 0.4, -0.1, 1, 1, 1.2, 0.9], F)
    sizes = np.array([1, 2, 3, 4])
    assert_like_peer(
        "Resize",
        IMAGE,
        roi,
        None,
        sizes,
        opset=13,
        known=(1, 3),
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=7.0,
        atol=1e-5,
    )


@pytest.mark.parametrize("op_opset", [("Resize", 10), ("Upsample", 9)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_before_opset_11(op_opset: tuple[str, int], mode: str) -> None:
    op, opset = op_opset
    assert_like_peer(op, IMAGE, scales(2, 1.5), opset=opset, known=(1,), mode=mode, atol=1e-5)


def test_upsample_with_its_scales_as_an_attribute() -> None:
    found = run("Upsample", IMAGE, opset=7, scales=[1.0, 1.0, 2.0, 3.0])
    np.testing.assert_array_equal(found, IMAGE.repeat(2, 2).repeat(3, 3))


def test_whole_factors_of_bytes() -> None:
    image = np.random.default_rng(1).integers(0, 255, (1, 2, 4, 4)).astype(np.uint8)
    assert_like_peer("Resize", image, None, scales(2, 1.5), opset=19, known=(2,), atol=0)


def test_scales_that_are_an_input_must_be_frozen() -> None:
    message = refusal("Resize", IMAGE, None, scales(2, 2), opset=13)
    assert "--const i2=FILE.safetensors" in message
