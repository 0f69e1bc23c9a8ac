"""Pairs of a pointwise and a depthwise convolution: which become one kernel, and that it is
right."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from fused_models import Node, make_model, own_kernels, run_ort, run_ours

from compile.fuse import fuse
from compile.tune import Tiles, Tuning

pytestmark = pytest.mark.usefixtures("device")

RNG = np.random.default_rng(0)
TOLERANCE = 1e-5
# 64 channels of it are 1.3 MB, beyond a cache of one.
LARGE, SMALL = (80, 64), (40, 32)


def weights(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


WEIGHTS = {
    "first": weights(12, 3, 3, 3),
    "w": weights(64, 12, 1, 1),
    "b": weights(64),
    "v": weights(64, 1, 3, 3),
    "p": weights(12, 64, 1, 1),
    "wide": weights(64, 12, 3, 3),
}
FIRST: Node = ("Conv", "x first", "a", {"pads": [1, 1, 1, 1]})
EXPAND: list[Node] = [("Conv", "a w b", "e", {}), ("Relu", "e", "f", {})]
DEPTHWISE: list[Node] = [
    ("Conv", "f v", "d", {"group": 64, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ("Sigmoid", "d", "s", {}),
    ("Mul", "d s", "m", {}),
]
PROJECT: Node = ("Conv", "m p", "y", {})


@dataclass
class Case:
    """Nodes from `x` to the outputs, and the kernels that they become."""

    nodes: list[Node]
    expected: dict[str, int]
    size: tuple[int, int] = LARGE
    outputs: tuple[str, ...] = ("y",)

    def model(self) -> onnx.ModelProto:
        """The graph, with shapes inferred."""
        return make_model(self.nodes, {"x": (1, 3, *self.size)}, self.outputs, WEIGHTS)


CASES = {
    "a large map": Case([FIRST, *EXPAND, *DEPTHWISE, PROJECT], {"Convolution": 2, "Expansion": 1}),
    "the last of the network": Case(
        [FIRST, *EXPAND, *DEPTHWISE],
        {"Convolution": 1, "Expansion": 1, "FromBlocked": 1},
        outputs=("m",),
    ),
    "the first of the network": Case(
        [
            ("Conv", "x first", "a", {"pads": [1, 1, 1, 1]}),
            ("MaxPool", "a", "q", {"kernel_shape": [1, 1]}),
            ("Conv", "q w b", "e", {}),
            ("Relu", "e", "f", {}),
            *DEPTHWISE,
            PROJECT,
        ],
        {"Convolution": 2, "Pool": 1, "Expansion": 1},
    ),
    "a map that stays in the cache": Case(
        [FIRST, *EXPAND, *DEPTHWISE, PROJECT],
        {"Convolution": 2, "Separable": 1, "FromBlocked": 1},
        SMALL,
    ),
    "fewer rows than cores": Case(
        [FIRST, *EXPAND, *DEPTHWISE, PROJECT], {"Convolution": 3, "Depthwise": 1}, (14, 32)
    ),
    "the depthwise map is an output": Case(
        [FIRST, *EXPAND, *DEPTHWISE, PROJECT],
        {"Convolution": 3, "Depthwise": 1, "FromBlocked": 1},
        SMALL,
        outputs=("y", "m"),
    ),
    "steps and a residual after both": Case(
        [
            FIRST,
            ("Conv", "a w b", "f", {}),
            ("Conv", "f v", "d", {"group": 64, "pads": [1, 1, 1, 1]}),
            ("Relu", "d", "m", {}),
            ("Conv", "m p", "n", {}),
            ("Add", "n a", "t", {}),
            ("Relu", "t", "u", {}),
            ("MaxPool", "u", "y", {"kernel_shape": [2, 2]}),
        ],
        {"Convolution": 2, "Separable": 1, "Pool": 1, "FromBlocked": 1},
        SMALL,
    ),
    "the map in between is an output": Case(
        [FIRST, *EXPAND, *DEPTHWISE, PROJECT],
        {"Convolution": 2, "Separable": 1, "FromBlocked": 2},
        outputs=("y", "f"),
    ),
    "two read the map in between": Case(
        [FIRST, *EXPAND, *DEPTHWISE, PROJECT, ("Conv", "f p", "z", {})],
        {"Convolution": 3, "Separable": 1, "FromBlocked": 1},
        outputs=("y", "z"),
    ),
    "a kernel of several columns": Case(
        [
            FIRST,
            ("Conv", "a wide b", "f", {"pads": [1, 1, 1, 1]}),
            *DEPTHWISE,
            PROJECT,
        ],
        {"Convolution": 2, "Separable": 1, "FromBlocked": 1},
    ),
    "a residual in between": Case(
        [
            FIRST,
            ("Conv", "a wide", "r", {"pads": [1, 1, 1, 1]}),
            ("Conv", "a w b", "e", {}),
            ("Add", "e r", "f", {}),
            *DEPTHWISE,
            PROJECT,
        ],
        {"Convolution": 3, "Separable": 1, "FromBlocked": 1},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_pairs(name: str) -> None:
    case = CASES[name]
    model = case.model()
    fused = fuse(model, Tiles(Tuning()))
    private = own_kernels(fused)
    assert private == Counter(case.expected)
    x = RNG.standard_normal((1, 3, *case.size), np.float32)
    expected = run_ort(model, {"x": x})
    for found, wanted in zip(run_ours(fused, {"x": x}), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)


def test_the_kernel_is_named_by_the_nodes_of_both() -> None:
    fused = fuse(CASES["a large map"].model(), Tiles(Tuning()))
    (pair,) = (n for n in fused.graph.node if n.op_type == "Expansion")
    assert pair.name.split("\n") == ["e", "f", "d", "s", "m"]


def test_kernels_for_work_groups_do_not_know_pairs() -> None:
    fused = fuse(CASES["a large map"].model(), Tiles(Tuning()), None, "gpu")
    assert all(n.op_type not in ("Expansion", "Separable") for n in fused.graph.node)


def test_narrow_vectors_keep_fewer_sums_in_registers() -> None:
    tiles = {}
    for native in (16, 4):
        fused = fuse(CASES["a large map"].model(), Tiles(Tuning(), native_width=native))
        (pair,) = (n for n in fused.graph.node if n.op_type == "Expansion")
        (tile,) = (list(a.ints) for a in pair.attribute if a.name == "tile")
        tiles[native] = tile
    assert max(tiles[4]) <= 6 < max(tiles[16])
