"""Each pattern with and without fusion, against onnxruntime; what must not be fused is not."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from fused_models import make_model, own_kernels, run_ort, run_ours

from compile.fuse import DOMAIN, fuse
from compile.tune import Tiles, Tuning

pytestmark = pytest.mark.usefixtures("device")

RNG = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    fan_in = max(1, int(np.prod(shape[1:])))
    return (RNG.standard_normal(shape) / fan_in**0.5).astype(np.float32)


@dataclass
class Case:
    """Nodes as (operator, inputs, output, attributes), and what becomes of them."""

    nodes: Sequence[tuple[str, str, str, dict[str, object]]]
    inputs: dict[str, tuple[int, ...]]
    constants: dict[str, np.ndarray]
    expected: dict[str, int]
    outputs: Sequence[str] = ("y",)
    opset: int = 17
    tolerance: float = 1e-5
    rest: set[str] = field(default_factory=set)

    def model(self) -> onnx.ModelProto:
        """The graph, with shapes inferred."""
        return make_model(self.nodes, self.inputs, self.outputs, self.constants, self.opset)


MAP = {"x": (1, 6, 5, 9)}
CONV = ("Conv", "x w b", "c", {"pads": [1, 1, 1, 1]})
CONV_WEIGHTS = {"w": weights(20, 6, 3, 3), "b": weights(20)}
C = np.float32(1)


def on_conv(*nodes: tuple[str, str, str, dict[str, object]], **constants: np.ndarray) -> Case:
    """A convolution and elementwise nodes that it takes with it: one kernel."""
    return Case([CONV, *nodes], MAP, {**CONV_WEIGHTS, **constants}, {"Convolution": 1})


def scalar(value: float) -> np.ndarray:
    return np.array(value, np.float32)


CASES: dict[str, Case] = {
    "batch norm into the weights": on_conv(
        ("BatchNormalization", "c s t m v", "n", {"epsilon": 1e-3}),
        ("Elu", "n", "y", {}),
        s=weights(20),
        t=weights(20),
        m=weights(20),
        v=np.abs(weights(20)) + C,
    ),
    "scale and shift of each channel": on_conv(
        ("Mul", "c s", "n", {}),
        ("Sub", "n t", "y", {}),
        s=weights(20, 1, 1),
        t=weights(1, 20, 1, 1),
    ),
    "activation before the shift stays before": on_conv(
        ("Relu", "c", "r", {}), ("Add", "t r", "y", {}), t=weights(20, 1, 1)
    ),
    "SiLU": on_conv(("Sigmoid", "c", "g", {}), ("Mul", "g c", "y", {})),
    "hard swish": on_conv(
        ("Add", "c three", "a", {}),
        ("Clip", "a zero six", "g", {}),
        ("Mul", "c g", "m", {}),
        ("Div", "m six", "y", {}),
        three=scalar(3),
        zero=scalar(0),
        six=scalar(6),
    ),
    "GELU": on_conv(
        ("Div", "c root", "d", {}),
        ("Erf", "d", "e", {}),
        ("Add", "e one", "g", {}),
        ("Mul", "c g", "m", {}),
        ("Mul", "m half", "y", {}),
        root=scalar(2**0.5),
        one=scalar(1),
        half=scalar(0.5),
    ),
    "PReLU and residual": Case(
        [CONV, ("PRelu", "c s", "p", {}), ("Add", "z p", "y", {})],
        {**MAP, "z": (1, 20, 5, 9)},
        {**CONV_WEIGHTS, "s": weights(20, 1, 1)},
        {"Convolution": 1},
    ),
    "depthwise, pointwise, residual of a residual": Case(
        [
            CONV,
            ("Conv", "c d", "e", {"group": 20, "pads": [2, 2, 2, 2], "strides": [1, 1]}),
            ("Conv", "e p", "f", {}),
            ("Add", "f c", "g", {}),
            ("Relu", "g", "y", {}),
        ],
        MAP,
        {**CONV_WEIGHTS, "d": weights(20, 1, 5, 5), "p": weights(20, 20, 1, 1)},
        {"Convolution": 2, "Depthwise": 1, "FromBlocked": 1},
    ),
    "pooling, joining, what remains elementwise": Case(
        [
            CONV,
            ("MaxPool", "c", "m", {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1}),
            ("AveragePool", "c", "a", {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}),
            ("Concat", "c a x", "j", {"axis": 1}),
            ("LeakyRelu", "j", "l", {"alpha": 0.3}),
            ("GlobalAveragePool", "l", "g", {}),
            ("Sigmoid", "c", "s", {}),
            ("Mul", "s a", "y", {}),
        ],
        MAP,
        CONV_WEIGHTS,
        {"Convolution": 1, "Pool": 3, "Mix": 1, "Elementwise": 1, "FromBlocked": 3},
        outputs=("y", "m", "g"),
    ),
    "convolution transposed": Case(
        [CONV, ("ConvTranspose", "c u", "t", {"strides": [2, 2]}), ("Relu", "t", "y", {})],
        MAP,
        {**CONV_WEIGHTS, "u": weights(20, 3, 2, 2)},
        {"Convolution": 2},
    ),
    "enlarged maps are joined, added and read": Case(
        [
            ("Conv", "x w b", "c", {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
            (
                "Resize",
                "c _ twice",
                "r",
                {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
            ),
            ("Concat", "r x", "j", {"axis": 1}),
            ("Conv", "j d", "e", {}),
            ("Resize", "c _ _ sizes", "s", {}),
            ("Add", "s e", "y", {}),
        ],
        {"x": (1, 6, 6, 10)},
        {
            **CONV_WEIGHTS,
            "d": weights(20, 26, 1, 1),
            "twice": np.array([1, 1, 2, 2], np.float32),
            "sizes": np.array([1, 20, 6, 10]),
        },
        {"Convolution": 2, "Mix": 2, "FromBlocked": 1},
    ),
    "a convolution of slices reads the map": Case(
        [
            ("Slice", "x zero end two_axis two", "top", {}),
            ("Slice", "top zero end three_axis two", "a", {}),
            ("Slice", "x one end two_axis two", "low", {}),
            ("Slice", "low zero end three_axis two", "f", {}),
            ("Slice", "x both ends axes steps", "d", {}),
            ("Slice", "top one end three_axis two", "e", {}),
            ("Concat", "a f e d", "j", {"axis": 1}),
            ("Conv", "j w b", "y", {"pads": [1, 0, 0, 1], "strides": [1, 2]}),
        ],
        {"x": (1, 3, 8, 12)},
        {
            "w": weights(5, 12, 3, 2),
            "b": weights(5),
            "zero": np.array([0]),
            "one": np.array([1]),
            "two": np.array([2]),
            "end": np.array([2**62]),
            "two_axis": np.array([2]),
            "three_axis": np.array([-1]),
            "both": np.array([1, 1]),
            "ends": np.array([12, 8]),
            "axes": np.array([3, 2]),
            "steps": np.array([2, 2]),
        },
        {"Convolution": 1},
    ),
    "rows of joined maps, one map after the other": Case(
        [
            CONV,
            ("Sigmoid", "c", "s", {}),
            ("Concat", "c s x", "j", {"axis": 1}),
            ("Reshape", "j flat", "f", {}),
            ("Reshape", "z small", "g", {}),
            ("Concat", "f g", "k", {"axis": 2}),
            ("Transpose", "k", "y", {"perm": [0, 2, 1]}),
        ],
        {**MAP, "z": (1, 46, 2, 3)},
        {**CONV_WEIGHTS, "flat": np.array([1, 46, -1]), "small": np.array([1, 46, 6])},
        {"Convolution": 1, "Elementwise": 1, "Stack": 1},
    ),
    "rows of maps whose channels are moved last": Case(
        [
            CONV,
            ("Transpose", "c", "t", {"perm": [0, 2, 3, 1]}),
            ("Reshape", "t flat", "f", {}),
            ("Transpose", "x", "u", {"perm": [0, 2, 3, 1]}),
            ("Reshape", "u flat", "g", {}),
            ("Concat", "f g", "y", {"axis": 1}),
            ("Relu", "c", "r", {}),
            ("Transpose", "r", "z", {"perm": [0, 2, 3, 1]}),
        ],
        MAP,
        {**CONV_WEIGHTS, "flat": np.array([1, -1, 2])},
        {"Convolution": 1, "Elementwise": 1, "Stack": 2},
        outputs=("y", "z"),
    ),
    "rows of a map that a convolution reads, too": Case(
        [CONV, ("Conv", "c d", "y", {}), ("MatMul", "c m", "n", {}), ("Gather", "n zero", "z", {})],
        MAP,
        {**CONV_WEIGHTS, "d": weights(3, 20, 1, 1), "m": weights(9, 4), "zero": np.array(0)},
        {"Convolution": 3, "FromBlocked": 1},
        outputs=("y", "z"),
        rest={"Gather"},
    ),
    "dense layers of two heads": Case(
        [
            ("Flatten", "x", "f", {}),
            ("Gemm", "f w b", "h", {"transB": 1, "alpha": 0.5, "beta": 2.0}),
            ("Relu", "h", "r", {}),
            ("MatMul", "r v", "y", {}),
            ("MatMul", "r u", "q", {}),
            ("Add", "q c", "z", {}),
        ],
        {"x": (1, 3, 4)},
        {
            "w": weights(24, 12),
            "b": weights(24),
            "v": weights(24, 5),
            "u": weights(24, 40),
            "c": weights(1, 40),
        },
        {"Dense": 2},
        outputs=("y", "z"),
        rest={"Flatten"},
    ),
    "transformer block": Case(
        [
            ("ReduceMean", "x", "m", {"axes": [-1]}),
            ("Sub", "x m", "d", {}),
            ("Pow", "d two", "s", {}),
            ("ReduceMean", "s", "v", {"axes": [-1]}),
            ("Add", "v eps", "ve", {}),
            ("Sqrt", "ve", "r", {}),
            ("Div", "d r", "n", {}),
            ("Mul", "n g", "ng", {}),
            ("Add", "ng t", "ln", {}),
            ("MatMul", "ln w", "q", {}),
            ("Transpose", "ln", "k", {"perm": [0, 2, 1]}),
            ("MatMul", "q k", "a", {}),
            ("Div", "a scale", "as", {}),
            ("Softmax", "as", "p", {"axis": -1}),
            ("MatMul", "p ln", "o", {}),
            ("Add", "o x", "y", {}),
        ],
        {"x": (1, 32, 16)},
        {
            "two": scalar(2),
            "eps": scalar(1e-5),
            "scale": scalar(4),
            "g": weights(16),
            "t": weights(16),
            "w": weights(16, 16),
        },
        {"Rows": 1, "DotProductAttention": 1, "Convolution": 1},
        rest={"Add"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_pattern(name: str) -> None:
    case = CASES[name]
    model = case.model()
    before = model.SerializeToString()
    inputs = {n: RNG.standard_normal(s, np.float32) for n, s in case.inputs.items()}
    fused = fuse(model, Tiles(Tuning()))
    assert model.SerializeToString() == before
    private = own_kernels(fused)
    assert private == Counter(case.expected)
    assert {node.op_type for node in fused.graph.node if node.domain != DOMAIN} == case.rest
    expected = run_ort(model, inputs)
    for got in (run_ours(fused, inputs), run_ours(model, inputs)):
        for g, e in zip(got, expected, strict=True):
            np.testing.assert_allclose(g, e, rtol=case.tolerance, atol=case.tolerance)


# What the kernels for work-groups take, and what they leave to others.
ON_GROUPS = {
    "batch norm into the weights": {"GroupConvolution": 1},
    "GELU": {"GroupConvolution": 1},
    "PReLU and residual": {"GroupConvolution": 1},
    "depthwise, pointwise, residual of a residual": {"GroupConvolution": 2},
    "convolution transposed": {"GroupConvolution": 2},
    "dense layers of two heads": {},
    "transformer block": {"GroupConvolution": 3},
}


@pytest.mark.parametrize("name", ON_GROUPS)
def test_pattern_for_work_groups(name: str) -> None:
    case = CASES[name]
    model = case.model()
    inputs = {n: RNG.standard_normal(s, np.float32) for n, s in case.inputs.items()}
    fused = fuse(model, Tiles(Tuning()), device_class="gpu")
    private = own_kernels(fused)
    assert private == Counter(ON_GROUPS[name])
    for g, e in zip(run_ours(fused, inputs), run_ort(model, inputs), strict=True):
        np.testing.assert_allclose(g, e, rtol=case.tolerance, atol=case.tolerance)


def test_every_node_is_named_by_one_kernel() -> None:
    case = CASES["depthwise, pointwise, residual of a residual"]
    fused = fuse(case.model(), Tiles(Tuning()))
    kernels = [node for node in fused.graph.node if node.op_type != "FromBlocked"]
    labels = [name for node in kernels for name in node.name.split("\n")]
    assert labels == ["c", "e", "f", "g", "y"]


UNFUSED: dict[str, Case] = {
    "an output in the middle": Case(
        [CONV, ("Relu", "c", "y", {})], MAP, CONV_WEIGHTS, {"Convolution": 1}, ("y", "c")
    ),
    "weights that are an input": Case(
        [CONV], {**MAP, "w": (20, 6, 3, 3)}, {"b": CONV_WEIGHTS["b"]}, {}
    ),
    "a bias that is an input": Case([CONV], {**MAP, "b": (20,)}, {"w": CONV_WEIGHTS["w"]}, {}),
    "groups of odd size": Case(
        [("Conv", "x w", "y", {"group": 2})], MAP, {"w": weights(6, 3, 1, 1)}, {}
    ),
    "one dimension": Case(
        [("Conv", "x w", "y", {})], {"x": (1, 6, 9)}, {"w": weights(8, 6, 3)}, {}
    ),
    "overlapping transposed convolution": Case(
        [("ConvTranspose", "x w", "y", {"strides": [2, 2]})], MAP, {"w": weights(6, 4, 3, 3)}, {}
    ),
    "softmax over channels": Case([("Softmax", "x", "y", {"axis": 1})], MAP, {}, {}),
}


@pytest.mark.parametrize("name", UNFUSED)
def test_what_does_not_fit_stays(name: str) -> None:
    case = UNFUSED[name]
    fused = fuse(case.model(), Tiles(Tuning()))
    private = own_kernels(fused)
    private.pop("Elementwise", None)
    private.pop("FromBlocked", None)
    assert private == Counter(case.expected)


def test_same_model_same_bytes() -> None:
    model = CASES["pooling, joining, what remains elementwise"].model()
    first, second = (
        fuse(model, Tiles(Tuning())).SerializeToString(deterministic=True) for _ in "ab"
    )
    assert first == second
