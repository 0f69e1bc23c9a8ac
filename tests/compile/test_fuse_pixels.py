"""Convolutions that read bytes where a graph casts, shifts and scales them: with and without
fusion, against onnxruntime."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from fused_models import Node, make_model, own_specs, run_ort, run_ours
from onnx import TensorProto

from compile.fuse import DOMAIN, fuse
from compile.kernels.conv import Convolution
from compile.kernels.spec import decode
from compile.tune import Tiles, Tuning, key_of

pytestmark = pytest.mark.usefixtures("device")

RNG = np.random.default_rng(0)
# Sums of 54 products; values reach 2, as the networks scale them.
TOLERANCE = 1e-5


def scalar(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def weights(outputs: int) -> np.ndarray:
    return (RNG.standard_normal((outputs, 6, 3, 3)) / 54**0.5).astype(np.float32)


@dataclass
class Case:
    """Nodes from the bytes `x` to convolutions, and how many of those read bytes."""

    nodes: Sequence[Node]
    reading: int
    shape: tuple[int, ...] = (1, 6, 7, 41)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    outputs: Sequence[str] = ("y",)
    # Operators that stay besides the kernels.
    rest: set[str] = field(default_factory=set)

    def model(self) -> onnx.ModelProto:
        """The graph, with shapes inferred."""
        numbers = {"mean": scalar(128), "scale": scalar(1 / 64), "w": WEIGHTS, "w2": weights(4)}
        constants = {**numbers, **self.constants}
        inputs, dtypes = {"x": self.shape}, {"x": np.uint8}
        return make_model(self.nodes, inputs, self.outputs, constants, dtypes=dtypes)


WEIGHTS = weights(20)
CAST: Node = ("Cast", "x", "f", {"to": TensorProto.FLOAT})
SUB: Node = ("Sub", "f mean", "d", {})
MUL: Node = ("Mul", "d scale", "s", {})
CONV: Node = ("Conv", "s w", "y", {"pads": [1, 1, 1, 1]})
LOPSIDED = {"pads": [2, 0, 1, 3], "strides": [2, 2]}


def index(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def queue(rows: dict[str, int], target: tuple[int, ...] = (1, 6, 7, 41)) -> Case:
    """Maps of two channels taken out of a queue of seven, as the channels of one map."""
    start, stop, step = rows["start"], rows["stop"], rows["step"]
    return Case(
        [
            ("Slice", "x start stop axis step", "r", {}),
            ("Reshape", "r target", "t", {}),
            ("Cast", "t", "f", {"to": TensorProto.FLOAT}),
            SUB,
            MUL,
            CONV,
        ],
        1,
        (7, 2, 7, 41),
        {
            "start": index(start),
            "stop": index(stop),
            "axis": index(0),
            "step": index(step),
            "target": index(*target),
        },
    )


CASES: dict[str, Case] = {
    "a cast alone": Case([CAST, ("Conv", "f w", "y", {"pads": [1, 1, 1, 1]})], 1),
    "shift and scale, padded": Case([CAST, SUB, MUL, CONV], 1),
    "padded on two sides": Case([CAST, SUB, MUL, ("Conv", "s w", "y", LOPSIDED)], 1),
    "scale before the shift": Case(
        [
            CAST,
            ("Div", "f scale", "d", {}),
            ("Add", "mean d", "e", {}),
            ("Mul", "small e", "s", {}),
            CONV,
        ],
        1,
        constants={"scale": scalar(55), "mean": scalar(-2.1), "small": scalar(0.7)},
    ),
    "a number minus the map": Case([CAST, ("Sub", "mean f", "d", {}), MUL, CONV], 1),
    "two convolutions of one map": Case(
        [CAST, SUB, MUL, CONV, ("Conv", "s w2", "z", LOPSIDED)], 2, outputs=("y", "z")
    ),
    "rows of a queue": queue({"start": 0, "stop": 7, "step": 3}),
    "later rows of a queue": queue({"start": 1, "stop": 7, "step": 2}),
    "another reader of the map": Case(
        [CAST, SUB, MUL, CONV, ("Sin", "s", "z", {})],
        0,
        outputs=("y", "z"),
        rest={"Cast", "Sub", "Mul", "Sin"},
    ),
    "the map is an output": Case(
        [CAST, SUB, MUL, CONV], 0, outputs=("y", "s"), rest={"Cast", "Sub", "Mul"}
    ),
    "a convolution in groups": Case(
        [CAST, SUB, MUL, ("Conv", "s g", "y", {"group": 6})],
        0,
        constants={"g": weights(6)[:, :1]},
        rest={"Cast", "Sub", "Mul"},
    ),
    "shift of each channel": Case(
        [CAST, ("Sub", "f each", "d", {}), MUL, CONV],
        0,
        constants={"each": np.arange(6, dtype=np.float32).reshape(6, 1, 1)},
        rest={"Cast", "Sub", "Mul"},
    ),
    "shift read twice": Case(
        [CAST, SUB, MUL, CONV, ("Sin", "d", "z", {})],
        0,
        outputs=("y", "z"),
        rest={"Cast", "Sub", "Mul", "Sin"},
    ),
}


def convolutions(model: onnx.ModelProto) -> list[Convolution]:
    """What the kernels for convolutions in a fused graph do."""
    specs = own_specs(model)
    return [decode(Convolution, spec) for name, spec in specs if name.endswith("Convolution")]


@pytest.mark.parametrize("name", CASES)
def test_bytes(name: str) -> None:
    case = CASES[name]
    model = case.model()
    x = RNG.integers(0, 256, case.shape).astype(np.uint8)
    expected = run_ort(model, {"x": x})
    fused, on_groups = fuse(model, Tiles(Tuning())), fuse(model, Tiles(Tuning()), None, "gpu")
    for found in (fused, on_groups):
        assert sum(conv.pixels is not None for conv in convolutions(found)) == case.reading
    plain = {node.op_type for node in fused.graph.node if node.domain != DOMAIN}
    assert plain == case.rest
    for graph in (fused, on_groups, model):
        for found, wanted in zip(run_ours(graph, {"x": x}), expected, strict=True):
            # Sums of bytes that are not shifted are as much larger.
            bound = TOLERANCE * max(1.0, float(np.abs(wanted).max()))
            np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)


def test_rows_of_a_queue_are_read_where_they_lie() -> None:
    fused = fuse(CASES["later rows of a queue"].model(), Tiles(Tuning()))
    (conv,) = convolutions(fused)
    assert conv.pixels is not None
    assert (conv.pixels.first, conv.pixels.part, conv.pixels.step) == (2, 2, 4)
    (node,) = (node for node in fused.graph.node if node.domain == DOMAIN)
    assert node.input[0] == "x"
    assert node.name.split("\n") == list("rtfdsy")


def test_same_model_same_bytes() -> None:
    model = CASES["two convolutions of one map"].model()
    first, second = (
        fuse(model, Tiles(Tuning())).SerializeToString(deterministic=True) for _ in "ab"
    )
    assert first == second


def test_tiles_of_bytes_have_keys_of_their_own() -> None:
    (conv,) = convolutions(fuse(CASES["a cast alone"].model(), Tiles(Tuning())))
    key = key_of("direct", conv)
    assert key == "direct 1x6x7x41 6>20x7x41 k3x3 s1x1 d1x1 p1x1 u1x1 g1 nchw>nchw uint8"
