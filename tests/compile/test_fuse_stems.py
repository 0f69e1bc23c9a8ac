"""First convolutions of several cameras and the join of their channels as one kernel: with and
without fusion, against onnxruntime."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from fused_models import Node, make_model, own_kernels, run_ort, run_ours
from onnx import TensorProto

from compile.fuse import fuse
from compile.tune import Tiles, Tuning

pytestmark = pytest.mark.usefixtures("device")

RNG = np.random.default_rng(0)
# Sums of at most 288 products of values around 1.
TOLERANCE = 2e-5


def weights(outputs: int, inputs: int, size: int) -> np.ndarray:
    scale = (inputs * size * size) ** 0.5
    return (RNG.standard_normal((outputs, inputs, size, size)) / scale).astype(np.float32)


CONSTANTS: dict[str, np.ndarray] = {
    **{f"w{n}": weights(32, 6, 3) for n in range(3)},
    **{f"b{n}": RNG.standard_normal(32).astype(np.float32) for n in range(3)},
    **{f"odd{n}": weights(24, 6, 3) for n in range(2)},
    "last_odd": weights(8, 48, 1),
    "last": weights(8, 64, 1),
    "last3": weights(8, 96, 1),
    "scale": RNG.standard_normal((1, 64, 1, 1)).astype(np.float32),
    "mean": np.array(128, np.float32),
    "width": np.array(1 / 64, np.float32),
}
HALVING = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
JOIN: Node = ("Concat", "r0 r1", "joined", {"axis": 1})
END: Node = ("Conv", "joined last", "y", {})


@dataclass
class Case:
    """Nodes from the maps x0, x1, … to `y`, and how many kernels of which kind they become."""

    nodes: Sequence[Node]
    kernels: dict[str, int]
    cameras: int = 2
    bytes: bool = False
    outputs: Sequence[str] = ("y",)

    def model(self) -> onnx.ModelProto:
        """The graph, with shapes inferred."""
        inputs = {f"x{n}": (1, 6, 13, 70) for n in range(self.cameras)}
        dtypes = dict.fromkeys(inputs, np.uint8 if self.bytes else np.float32)
        return make_model(self.nodes, inputs, self.outputs, CONSTANTS, dtypes=dtypes)

    def inputs(self) -> dict[str, np.ndarray]:
        """Values for the maps."""
        shape = (1, 6, 13, 70)
        return {
            f"x{n}": RNG.integers(0, 256, shape).astype(np.uint8)
            if self.bytes
            else RNG.standard_normal(shape, np.float32)
            for n in range(self.cameras)
        }


def stem(n: int, into: str = "", kernel: str = "w", **changes: object) -> list[Node]:
    return [
        ("Conv", f"{into or f'x{n}'} {kernel}{n} b{n}", f"c{n}", HALVING | changes),
        ("Relu", f"c{n}", f"r{n}", {}),
    ]


def scaled(n: int) -> list[Node]:
    return [
        ("Cast", f"x{n}", f"f{n}", {"to": TensorProto.FLOAT}),
        ("Sub", f"f{n} mean", f"d{n}", {}),
        ("Mul", f"d{n} width", f"s{n}", {}),
    ]


CASES: dict[str, Case] = {
    "two cameras": Case([*stem(0), *stem(1), JOIN, END], {"Convolution": 2}),
    "bytes": Case(
        [*scaled(0), *stem(0, "s0"), *scaled(1), *stem(1, "s1"), JOIN, END],
        {"Convolution": 2},
        bytes=True,
    ),
    "three cameras": Case(
        [
            *stem(0),
            *stem(1),
            *stem(2),
            ("Concat", "r2 r0 r1", "joined", {"axis": 1}),
            ("Conv", "joined last3", "y", {}),
        ],
        {"Convolution": 2},
        cameras=3,
    ),
    "steps after the join": Case(
        [*stem(0), *stem(1), JOIN, ("Mul", "joined scale", "m", {}), ("Conv", "m last", "y", {})],
        {"Convolution": 2},
    ),
    "the joined map is an output": Case(
        [*stem(0), *stem(1), JOIN], {"Convolution": 1}, outputs=("joined",)
    ),
    "channels that are no whole blocks": Case(
        [
            ("Conv", "x0 odd0", "r0", HALVING),
            ("Conv", "x1 odd1", "r1", HALVING),
            JOIN,
            ("Conv", "joined last_odd", "y", {}),
        ],
        {"Convolution": 3, "Mix": 1},
    ),
    "another window": Case(
        [*stem(0), *stem(1, dilations=[2, 2], pads=[2, 2, 2, 2]), JOIN, END],
        {"Convolution": 3, "Mix": 1},
    ),
    "another reader": Case(
        [*stem(0), *stem(1), JOIN, END, ("GlobalMaxPool", "r0", "z", {})],
        {"Convolution": 3, "Mix": 1, "Pool": 1, "FromBlocked": 1},
        outputs=("y", "z"),
    ),
    "another activation": Case(
        [*stem(0), stem(1)[0], ("Sigmoid", "c1", "r1", {}), JOIN, END],
        {"Convolution": 3, "Mix": 1},
    ),
    "the same camera twice": Case(
        [*stem(0), *stem(1, "x0"), JOIN, END], {"Convolution": 2}, cameras=1
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_stems(name: str) -> None:
    case = CASES[name]
    model, inputs = case.model(), case.inputs()
    fused = fuse(model, Tiles(Tuning()))
    private = own_kernels(fused)
    assert private == Counter(case.kernels)
    expected = run_ort(model, inputs)
    for graph in (fused, model):
        for found, wanted in zip(run_ours(graph, inputs), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)
