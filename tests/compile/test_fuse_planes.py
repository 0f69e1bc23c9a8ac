"""Convolutions to a few channels, in planes or in blocks of channels by what their neighbours read:
with and without fusion, against onnxruntime."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from fused_models import Node, make_model, own_kernels, run_ort, run_ours

from compile.fuse import fuse
from compile.tune import Tiles, Tuning

pytestmark = pytest.mark.usefixtures("device")

RNG = np.random.default_rng(0)
# Sums of at most 150 products of values around 1.
TOLERANCE = 1e-5


def weights(outputs: int, inputs: int) -> np.ndarray:
    values = RNG.standard_normal((outputs, inputs, 3, 3)) / (inputs * 9) ** 0.5
    return values.astype(np.float32)


CONSTANTS = {
    "w3_6": weights(6, 3),
    "w6_5": weights(5, 6),
    "w6_6": weights(6, 6),
    "w6_24": weights(24, 6),
    "w3_12": weights(12, 3),
    "w12_6": weights(6, 12),
    "w24_6": weights(6, 24),
    "depthwise": weights(6, 1),
    "bias": RNG.standard_normal(6).astype(np.float32),
}
HALVING = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
SAME = {"pads": [1, 1, 1, 1]}
FIRST: list[Node] = [
    ("Conv", "x w3_6 bias", "a", HALVING),
    ("HardSwish", "a", "b", {}),
]


@dataclass
class Case:
    """Nodes from the map x to y, and how many kernels of which kind they become."""

    nodes: Sequence[Node]
    kernels: dict[str, int]
    outputs: Sequence[str] = ("y",)

    def model(self) -> onnx.ModelProto:
        """The graph, with shapes inferred."""
        return make_model(self.nodes, {"x": (1, 3, 26, 75)}, self.outputs, CONSTANTS)


CASES = {
    "a chain that ends in blocks": Case(
        [*FIRST, ("Conv", "b w6_24", "c", HALVING), ("Conv", "c w24_6", "y", SAME)],
        {"Planar": 1, "Convolution": 2},
    ),
    "two in planes": Case([*FIRST, ("Conv", "b w6_5", "y", SAME)], {"Planar": 2}),
    "an output that is read on": Case(
        [*FIRST, ("Conv", "b w6_24", "y", HALVING)], {"Planar": 1, "Convolution": 1}, ("b", "y")
    ),
    "of a map in blocks": Case(
        [("Conv", "x w3_12", "c", HALVING), ("Conv", "c w12_6", "y", SAME)], {"Convolution": 2}
    ),
    "read in blocks": Case(
        [*FIRST, ("MaxPool", "b", "y", {"kernel_shape": [2, 2]})],
        {"Convolution": 1, "Pool": 1, "FromBlocked": 1},
    ),
    "read by a depthwise convolution": Case(
        [*FIRST, ("Conv", "b depthwise", "y", {**SAME, "group": 6})],
        {"Convolution": 1, "Depthwise": 1, "FromBlocked": 1},
    ),
    "a residual": Case(
        [*FIRST, ("Conv", "b w6_6", "c", SAME), ("Add", "b c", "y", {})],
        {"Convolution": 2, "FromBlocked": 1},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_planes(name: str) -> None:
    case = CASES[name]
    model, x = case.model(), RNG.standard_normal((1, 3, 26, 75), np.float32)
    fused = fuse(model, Tiles(Tuning()))
    private = own_kernels(fused)
    expected = run_ort(model, {"x": x})
    for graph in (fused, model):
        for found, wanted in zip(run_ours(graph, {"x": x}), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    assert private == Counter(case.kernels)
