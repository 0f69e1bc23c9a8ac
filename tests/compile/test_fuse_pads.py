"""Pads that convolutions take over, and those that stay: with and without fusion, against
onnxruntime."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from fused_models import Node, make_model, run_ort, run_ours

from compile.fuse import fuse
from compile.tune import Tiles, Tuning

pytestmark = pytest.mark.usefixtures("device")

RNG = np.random.default_rng(0)
TOLERANCE = 1e-5


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


CONSTANTS = {
    "w": (RNG.standard_normal((20, 6, 3, 3)) / 54**0.5).astype(np.float32),
    "around": integers(0, 0, 1, 2, 0, 0, 0, 3),
    "of_two": integers(1, 2, 0, 3),
    "two": integers(2, -1),
    "cropping": integers(0, 0, 1, 2, 0, 0, 0, -1),
    "channels": integers(0, 1, 0, 0, 0, 0, 0, 0),
    "zero": np.float32(0),
    "one": np.float32(1),
    "wide": (RNG.standard_normal((20, 7, 3, 3)) / 63**0.5).astype(np.float32),
}
CONV: Node = ("Conv", "p w", "y", {"pads": [0, 1, 2, 0], "strides": [2, 1]})


@dataclass
class Case:
    """Nodes from the map x to the outputs, and the nodes with these operators that are left."""

    nodes: Sequence[Node]
    left: dict[str, int]
    opset: int = 18
    outputs: Sequence[str] = ("y",)

    def model(self) -> onnx.ModelProto:
        """The graph, with shapes inferred."""
        return make_model(self.nodes, {"x": (1, 6, 9, 20)}, self.outputs, CONSTANTS, self.opset)


FOLDED = {"Convolution": 1}
KEPT = {"Convolution": 1, "Pad": 1}
CASES = {
    "around the maps": Case([("Pad", "x around", "p", {}), CONV], FOLDED),
    "zero by name": Case([("Pad", "x around zero", "p", {}), CONV], FOLDED),
    "named axes": Case([("Pad", "x of_two _ two", "p", {}), CONV], FOLDED),
    "attributes": Case(
        [("Pad", "x", "p", {"pads": CONSTANTS["around"].tolist()}), CONV], FOLDED, opset=9
    ),
    "two that follow each other": Case(
        [("Pad", "x around", "q", {}), ("Pad", "q of_two zero two", "p", {}), CONV],
        {"Convolution": 1, "Pad": 1},
    ),
    "another reader": Case(
        [("Pad", "x around", "p", {}), CONV, ("Sigmoid", "p", "z", {})],
        {"Convolution": 1, "Pad": 1, "Sigmoid": 1},
        outputs=("y", "z"),
    ),
    "ones": Case([("Pad", "x around one", "p", {}), CONV], KEPT),
    "reflection": Case([("Pad", "x around", "p", {"mode": "reflect"}), CONV], KEPT),
    "cropping": Case([("Pad", "x cropping", "p", {}), CONV], KEPT),
    "channels": Case([("Pad", "x channels", "p", {}), ("Conv", "p wide", "y", {})], KEPT),
    "pads that follow from the size": Case(
        [("Pad", "x around", "p", {}), ("Conv", "p w", "y", {"auto_pad": "SAME_UPPER"})], KEPT
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_pads(name: str) -> None:
    case = CASES[name]
    model, x = case.model(), RNG.standard_normal((1, 6, 9, 20), np.float32)
    fused = fuse(model, Tiles(Tuning()))
    expected = run_ort(model, {"x": x})
    for graph in (fused, model):
        for found, wanted in zip(run_ours(graph, {"x": x}), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    left = Counter(node.op_type for node in fused.graph.node)
    assert {op: left[op] for op in ("Convolution", "Pad", "Sigmoid") if left[op]} == case.left
    (conv,) = (node for node in fused.graph.node if node.op_type == "Convolution")
    assert ("p" in conv.name.split("\n")) == (case.left == FOLDED or "follow each" in name)
