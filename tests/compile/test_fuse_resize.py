"""Maps at another size by a kernel of ours, against onnxruntime; what tinygrad keeps."""

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import onnx
import pytest
from fused_models import make_model, own_kernels, run_ort, run_ours
from onnx import helper, numpy_helper
from single_node import sparsely

from compile.fuse import fuse
from compile.tune import Tiles, Tuning

pytestmark = pytest.mark.usefixtures("device")

F = np.float32
RNG = np.random.default_rng(0)
X = RNG.standard_normal((1, 3, 6, 9), F)
CONSTANTS = {
    "w": (RNG.standard_normal((20, 3, 3, 3)) / 5).astype(F),
    "v": (RNG.standard_normal((4, 20, 1, 1)) / 5).astype(F),
    "slope": RNG.standard_normal((20, 1, 1), F),
    "roi": np.array([0, 0, 0, 0, 1, 1, 1, 1], F),
}
COORDINATES = ("half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
# Larger, smaller, both; one row.
SIZES = ((12, 18), (13, 5), (4, 31), (1, 40))


def numbers(*values: float) -> np.ndarray:
    """Scales, or sizes if they are whole numbers."""
    return np.array(values, np.int64 if isinstance(values[-1], int) else F)


def model_of(
    resized: str,
    values: np.ndarray,
    opset: int = 17,
    operator: str = "Resize",
    outputs: Sequence[str] = ("y",),
    **attributes: object,
) -> onnx.ModelProto:
    """Conv x → c; the operator of `resized` → r; PReLU and Abs → q; Conv → y, where y is an output.

    `values` are the constant `n`.
    """
    nodes = [
        ("Conv", "x w", "c", {"pads": [1, 1, 1, 1]}),
        (operator, resized, "r", attributes),
        ("PRelu", "r slope", "p", {}),
        ("Abs", "p", "q", {}),
        ("Conv", "q v", "y", {}),
    ]
    nodes = nodes[: 5 if "y" in outputs else 4]
    return make_model(nodes, {"x": X.shape}, outputs, {**CONSTANTS, "n": values}, opset)


def kernels_of(model: onnx.ModelProto) -> Counter[str]:
    """The private nodes of the model with kernels in it, whose results are onnxruntime's."""
    fused = fuse(model, Tiles(Tuning()))
    expected = run_ort(model, {"x": X})
    for found, wanted in zip(run_ours(fused, {"x": X}), expected, strict=True):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    return own_kernels(fused)


ONE_KERNEL = Counter({"Convolution": 2, "Interpolate": 1})


@pytest.mark.parametrize(("mode", "size"), sparsely(product(COORDINATES, SIZES), 5))
def test_bilinear_to_sizes(mode: str, size: tuple[int, int]) -> None:
    attributes = {"mode": "linear", "coordinate_transformation_mode": mode}
    model = model_of("c _ _ n", numbers(1, 20, *size), **attributes)
    assert kernels_of(model) == ONE_KERNEL


@pytest.mark.parametrize(
    ("mode", "rounding", "size"), sparsely(product(COORDINATES, ROUNDINGS, SIZES[1:3]), 9)
)
def test_nearest_by_any_factor(mode: str, rounding: str, size: tuple[int, int]) -> None:
    attributes = {"nearest_mode": rounding, "coordinate_transformation_mode": mode}
    model = model_of("c _ _ n", numbers(1, 20, *size), **attributes)
    assert kernels_of(model) == ONE_KERNEL


@pytest.mark.parametrize(
    ("operator", "opset", "mode"),
    [("Upsample", 9, "linear"), ("Upsample", 9, "nearest"), ("Resize", 10, "linear")],
)
def test_scales_before_opset_11(operator: str, opset: int, mode: str) -> None:
    model = model_of("c n", numbers(1.0, 1.0, 2.5, 3.0), opset, operator, mode=mode)
    assert kernels_of(model) == ONE_KERNEL


def test_scales_that_are_an_attribute() -> None:
    model = model_of("c", numbers(0), 7, "Upsample", mode="linear", scales=[1.0, 1.0, 2.0, 3.0])
    assert kernels_of(model) == ONE_KERNEL


@pytest.mark.parametrize("policy", ["stretch", "not_larger"])
def test_sizes_of_two_axes(policy: str) -> None:
    attributes = {"axes": [3, 2], "keep_aspect_ratio_policy": policy, "mode": "linear"}
    assert kernels_of(model_of("c _ _ n", numbers(14, 12), 18, **attributes)) == ONE_KERNEL


def test_a_map_that_leaves_is_written_in_its_own_layout() -> None:
    model = model_of("c roi n", numbers(1.0, 1.0, 1.7, 2.4), outputs=("q",), mode="linear")
    assert kernels_of(model) == Counter({"Convolution": 1, "Interpolate": 1})


def test_a_residual_is_added_to_what_is_enlarged() -> None:
    model = model_of("c _ n", numbers(1.0, 1.0, 2.0, 2.0), mode="linear", outputs=("z", "y"))
    model.graph.node.insert(0, helper.make_node("Conv", ["x", "u"], ["d"], strides=[1, 1]))
    model.graph.node.append(helper.make_node("Resize", ["d", "", "", "s"], ["e"], mode="linear"))
    model.graph.node.append(helper.make_node("Add", ["e", "p"], ["z"]))
    u = (RNG.standard_normal((20, 3, 2, 3)) / 5).astype(F)
    more = {"u": u, "s": numbers(1, 20, 12, 18)}
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in more.items())
    model = onnx.shape_inference.infer_shapes(model)
    found = kernels_of(model)
    assert found["Interpolate"] == 2
    assert found["Elementwise"] == 1


KEPT: dict[str, tuple[int, dict[str, object]]] = {
    "cubic": (17, {"mode": "cubic"}),
    "antialiased": (18, {"mode": "linear", "antialias": 1}),
    "outside excluded": (17, {"mode": "linear", "exclude_outside": 1}),
    "cropped": (17, {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_tinygrad_keeps(name: str) -> None:
    opset, attributes = KEPT[name]
    scales = numbers(1.0, 1.0, 0.5, 2.0)
    model = model_of("c roi n", scales, opset, outputs=("q",), **attributes)
    fused = fuse(model, Tiles(Tuning()))
    assert "Interpolate" not in {node.op_type for node in fused.graph.node}


def test_channels_that_are_scaled_stay_with_tinygrad() -> None:
    scales = numbers(1.0, 2.0, 1.0, 2.0)
    model = model_of("c _ n", scales, outputs=("r",), mode="linear")
    fused = fuse(model, Tiles(Tuning()))
    assert "Interpolate" not in {node.op_type for node in fused.graph.node}
