"""3 x 3 convolutions by Winograd's filtering or not, by what they are and who reads them: with and
without fusion, against onnxruntime."""

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
# Sums of values around 1, of which every other convolution may err by 1e-4.
TOLERANCE = 1e-4


def weights(outputs: int, inputs: int, size: int = 3) -> np.ndarray:
    values = RNG.standard_normal((outputs, inputs, size, size)) / (inputs * size * size) ** 0.5
    return values.astype(np.float32)


CONSTANTS = {
    "first": weights(20, 3, 1),
    "w": weights(20, 20),
    "narrow": weights(12, 20),
    "last": weights(3, 20, 1),
    "last_narrow": weights(3, 12, 1),
    "bias": RNG.standard_normal(20).astype(np.float32),
}
SAME = {"pads": [1, 1, 1, 1]}
FIRST: Node = ("Conv", "x first", "a", {})
LAST: Node = ("Conv", "b last", "y", {})


@dataclass
class Case:
    """Nodes from the map x to y, and how many kernels of which kind they become."""

    nodes: Sequence[Node]
    kernels: dict[str, int]
    size: tuple[int, int] = (18, 33)

    def model(self) -> onnx.ModelProto:
        """The graph, with shapes inferred."""
        return make_model(self.nodes, {"x": (1, 3, *self.size)}, ["y"], CONSTANTS)


CASES = {
    "between two kernels of ours": Case(
        [FIRST, ("Conv", "a w bias", "b", SAME), LAST], {"Convolution": 2, "Winograd": 1}
    ),
    "residual and activation": Case(
        [
            FIRST,
            ("Conv", "a w bias", "c", SAME),
            ("Add", "c a", "d", {}),
            ("Relu", "d", "b", {}),
            LAST,
        ],
        {"Convolution": 2, "Winograd": 1},
    ),
    "one after the other": Case(
        [FIRST, ("Conv", "a w", "c", SAME), ("Conv", "c w", "b", SAME), LAST],
        {"Convolution": 2, "Winograd": 2},
    ),
    "the network's output": Case([FIRST, ("Conv", "a w", "y", SAME)], {"Convolution": 2}),
    "the network's input": Case([("Conv", "x first", "y", {})], {"Convolution": 1}, size=(40, 40)),
    "stride": Case(
        [FIRST, ("Conv", "a w", "b", {**SAME, "strides": [2, 2]}), LAST], {"Convolution": 3}
    ),
    "dilation": Case(
        [FIRST, ("Conv", "a w", "b", {"pads": [2] * 4, "dilations": [2, 2]}), LAST],
        {"Convolution": 3},
    ),
    "few channels": Case(
        [FIRST, ("Conv", "a narrow", "b", SAME), ("Conv", "b last_narrow", "y", {})],
        {"Convolution": 3},
    ),
    "a small map": Case(
        [FIRST, ("Conv", "a w", "b", SAME), LAST], {"Convolution": 3}, size=(13, 17)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_winograd(name: str) -> None:
    case = CASES[name]
    model, x = case.model(), RNG.standard_normal((1, 3, *case.size), np.float32)
    fused = fuse(model, Tiles(Tuning()))
    private = own_kernels(fused)
    expected = run_ort(model, {"x": x})
    for graph in (fused, model):
        for found, wanted in zip(run_ours(graph, {"x": x}), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE)
    assert private == Counter(case.kernels)
