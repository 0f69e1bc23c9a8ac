"""Queues of past values are moved on by one launch: with and without it, against onnxruntime."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from fused_models import Node, make_model, run_ort, run_ours

from compile.fuse import DOMAIN, fuse
from compile.tune import Tiles, Tuning

pytestmark = pytest.mark.usefixtures("device")

RNG = np.random.default_rng(0)
# Operands of Slice, by name.
NUMBERS = {
    "zero": [0],
    "one": [1],
    "two": [2],
    "four": [4],
    "end": [2**31],
    "back": [-4],
    "row": [1, 3, 4],
}


@dataclass
class Case:
    """Nodes, the inputs by name, and how many outputs each launch for queues makes."""

    nodes: Sequence[Node]
    inputs: dict[str, np.ndarray]
    launches: list[int]
    outputs: Sequence[str] = ("next",)
    # Operators that stay.
    rest: set[str] = field(default_factory=set)

    def model(self) -> onnx.ModelProto:
        """The graph, with shapes inferred."""
        shapes = {name: array.shape for name, array in self.inputs.items()}
        dtypes = {name: array.dtype.type for name, array in self.inputs.items()}
        numbers = {name: np.array(values, np.int64) for name, values in NUMBERS.items()}
        return make_model(self.nodes, shapes, self.outputs, numbers, dtypes=dtypes)


def values(kind: str, *shape: int) -> np.ndarray:
    return RNG.integers(0, 200, shape).astype(kind)


def kept(start: str = "one", axis: str = "zero", step: str = "one") -> Node:
    return "Slice", f"q {start} end {axis} {step}", "kept", {}


JOIN: Node = ("Concat", "kept new", "next", {"axis": 0})
CASES: dict[str, Case] = {
    "bytes": Case(
        [kept(), JOIN], {"q": values("uint8", 5, 7, 9), "new": values("uint8", 1, 7, 9)}, [1]
    ),
    "more than one chunk": Case(
        [kept(), JOIN],
        {"q": values("uint8", 3, 41_003), "new": values("uint8", 1, 41_003)},
        [1],
    ),
    "eight bytes an element": Case(
        [kept("two"), JOIN], {"q": values("int64", 5, 3), "new": values("int64", 2, 3)}, [1]
    ),
    "halves": Case(
        [kept(), JOIN], {"q": values("float16", 5, 3), "new": values("float16", 1, 3)}, [1]
    ),
    "rows below an axis of one": Case(
        [kept("one", "one"), ("Concat", "kept new", "next", {"axis": 1})],
        {"q": values("float32", 1, 9, 4), "new": values("float32", 1, 1, 4)},
        [1],
    ),
    "counted from the end": Case(
        [kept("back"), JOIN], {"q": values("float32", 5, 4), "new": values("float32", 1, 4)}, [1]
    ),
    "the newest first": Case(
        [
            ("Slice", "q zero four zero one", "kept", {}),
            ("Concat", "new kept", "next", {"axis": 0}),
        ],
        {"q": values("float32", 5, 4), "new": values("float32", 1, 4)},
        [1],
    ),
    "a row of another shape": Case(
        [kept(), ("Reshape", "flat row", "new", {}), JOIN],
        {"q": values("uint8", 5, 3, 4), "flat": values("uint8", 12)},
        [1],
    ),
    "a row of constants": Case(
        [
            kept(),
            ("ConstantOfShape", "row", "zeros", {}),
            ("Concat", "kept zeros", "next", {"axis": 0}),
        ],
        {"q": values("float32", 5, 3, 4)},
        [1],
    ),
    "a row that is computed": Case(
        [kept(), ("Abs", "x", "new", {}), JOIN],
        {"q": values("float32", 5, 4), "x": values("float32", 1, 4)},
        [1],
        rest={"Abs"},
    ),
    "two queues of parts of one input": Case(
        [
            kept(),
            ("Slice", "both zero one zero one", "new", {}),
            JOIN,
            ("Slice", "q2 one end zero one", "kept2", {}),
            ("Slice", "both one end zero one", "new2", {}),
            ("Concat", "kept2 new2", "next2", {"axis": 0}),
        ],
        {
            "q": values("uint8", 5, 3),
            "q2": values("uint8", 4, 3),
            "both": values("uint8", 2, 3),
        },
        [2],
        ("next", "next2"),
    ),
    "every second row": Case(
        [kept("zero", "zero", "two"), JOIN],
        {"q": values("float32", 5, 4), "new": values("float32", 2, 4)},
        [],
        rest={"Slice", "Concat"},
    ),
    "columns": Case(
        [kept("one", "one"), ("Concat", "kept new", "next", {"axis": 1})],
        {"q": values("float32", 2, 4), "new": values("float32", 2, 1)},
        [],
        rest={"Slice", "Concat"},
    ),
    "nothing is kept": Case(
        [("Concat", "a b", "next", {"axis": 0})],
        {"a": values("float32", 2, 4), "b": values("float32", 2, 4)},
        [],
        rest={"Concat"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_queue(name: str) -> None:
    case = CASES[name]
    model = case.model()
    fused = fuse(model, Tiles(Tuning()))
    launches = [len(n.output) for n in fused.graph.node if n.domain == DOMAIN]
    assert Counter(launches) == Counter(case.launches)
    assert {n.op_type for n in fused.graph.node if n.domain != DOMAIN} == case.rest
    expected = run_ort(model, case.inputs)
    for graph in (fused, model):
        for found, wanted in zip(run_ours(graph, case.inputs), expected, strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)


def test_nodes_are_named_by_the_launch() -> None:
    (node,) = fuse(CASES["two queues of parts of one input"].model(), Tiles(Tuning())).graph.node
    assert sorted(node.name.split("\n")) == sorted(
        ["kept", "new", "next", "kept2", "new2", "next2"]
    )
    assert list(node.input) == ["q", "both", "q2"]


def test_not_for_work_groups() -> None:
    fused = fuse(CASES["bytes"].model(), Tiles(Tuning()), None, "gpu")
    assert {node.domain for node in fused.graph.node} == {""}
