"""Kernels that do not depend on each other in one launch: with and without it, against
onnxruntime."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from fused_models import Node, make_model, run_ort, run_ours

from compile.fuse import DOMAIN, fuse
from compile.kernels.joint import JOINABLE, Joint
from compile.kernels.nodes import OPS
from compile.kernels.spec import decode
from compile.tune import Tiles, Tuning

pytestmark = pytest.mark.usefixtures("device")

RNG = np.random.default_rng(0)
# Sums of at most 432 products of values around 1, three after each other.
TOLERANCE = 2e-5
SAME = {"pads": [1, 1, 1, 1]}


def weights(outputs: int, inputs: int, size: int) -> np.ndarray:
    scale = (inputs * size * size) ** 0.5
    return (RNG.standard_normal((outputs, inputs, size, size)) / scale).astype(np.float32)


CONSTANTS = {
    **{f"w{n}": weights(24, 48, 3) for n in range(3)},
    **{f"b{n}": RNG.standard_normal(24).astype(np.float32) for n in range(3)},
    **{f"v{n}": weights(8, 24, 3) for n in range(3)},
    **{f"u{n}": weights(n + 1, 8, 1) for n in range(3)},
    "s": weights(48, 48, 1),
    "t": weights(48, 48, 1),
    "mean": np.array(128, np.float32),
}


@dataclass
class Case:
    """Nodes from the map x to `outputs`, and the operators that each launch does the work of."""

    nodes: Sequence[Node]
    outputs: Sequence[str]
    launches: list[list[str]]
    bytes: bool = False

    def model(self) -> onnx.ModelProto:
        """The graph, with shapes inferred."""
        dtypes: dict[str, type] = {"x": np.uint8 if self.bytes else np.float32}
        shapes = {"x": (1, 48, 7, 11)}
        return make_model(self.nodes, shapes, self.outputs, CONSTANTS, dtypes=dtypes)


def head(n: int, into: str = "x") -> list[Node]:
    """Three convolutions, each of which is equal for all heads but the last."""
    return [
        ("Conv", f"{into} w{n} b{n}", f"c{n}", SAME),
        ("Relu", f"c{n}", f"r{n}", {}),
        ("Conv", f"r{n} v{n}", f"d{n}", SAME),
        ("Conv", f"d{n} u{n}", f"y{n}", {}),
    ]


CASES: dict[str, Case] = {
    "equal heads of one map": Case(
        [*head(0), *head(1), *head(2)], ["y0", "y1", "y2"], [["Convolution"] * 3] * 3
    ),
    "kernels of several kinds": Case(
        [
            ("Conv", "x s", "a", {}),
            ("Sigmoid", "a", "g", {}),
            ("Add", "a g", "h", {}),
            ("MaxPool", "a", "p", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
            ("Conv", "h s", "y", {}),
            ("Conv", "p w0 b0", "z", SAME),
        ],
        ["y", "z"],
        [["Convolution"], ["Elementwise", "Pool"], ["Convolution"] * 2],
    ),
    "kernels at several depths join their equals only": Case(
        [
            ("Conv", "x s", "a", {}),
            ("Conv", "a s", "b", {}),
            ("Conv", "a t", "d", {}),
            ("Conv", "a w0 b0", "m", SAME),
            ("Conv", "b t", "c", {}),
            ("MaxPool", "d", "p", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
            ("Conv", "c w1 b1", "y", SAME),
            ("Conv", "p w2 b2", "z", SAME),
        ],
        ["m", "y", "z"],
        [*[["Convolution"]] * 3, *[["Convolution"] * 2] * 2, ["Pool"]],
    ),
    "bytes": Case(
        [
            ("Cast", "x", "f", {"to": onnx.TensorProto.FLOAT}),
            ("Sub", "f mean", "d", {}),
            ("Conv", "d w0 b0", "y", SAME),
            ("Conv", "d s", "z", {}),
        ],
        ["y", "z"],
        [["Convolution"] * 2],
        bytes=True,
    ),
    "too many arguments for one launch": Case(
        [("Conv", f"x w{n % 3} b{n % 3}", f"y{n}", SAME) for n in range(31)],
        [f"y{n}" for n in range(31)],
        [["Convolution"] * 15, ["Convolution"] * 15, ["Convolution"]],
    ),
}


def launches(model: onnx.ModelProto) -> list[list[str]]:
    """The operators of each launch of our kernels."""
    found = []
    for node in model.graph.node:
        if node.op_type == "Joint":
            spec = onnx.helper.get_node_attr_value(node, "spec").decode()
            found.append([member.operator for member in decode(Joint, spec).members])
        elif node.domain == DOMAIN and node.op_type in JOINABLE:
            found.append([node.op_type])
    return found


@pytest.mark.parametrize("name", CASES)
def test_launches(name: str) -> None:
    case = CASES[name]
    model = case.model()
    shape = (1, 48, 7, 11)
    x = RNG.standard_normal(shape, np.float32)
    inputs = {"x": RNG.integers(0, 256, shape).astype(np.uint8) if case.bytes else x}
    fused = fuse(model, Tiles(Tuning()))
    assert sorted(launches(fused)) == sorted(case.launches)
    expected = run_ort(model, inputs)
    for graph in (fused, model):
        for found, wanted in zip(run_ours(graph, inputs), expected, strict=True):
            bound = TOLERANCE * max(1.0, np.abs(wanted).max())
            np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=bound)


def test_what_can_be_joined_are_operators() -> None:
    assert {op.name for op in OPS} >= JOINABLE
