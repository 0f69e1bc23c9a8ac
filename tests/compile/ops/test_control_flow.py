"""If, Loop and Scan: what is unrolled, what is selected, what is refused."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from single_node import Array, device_tensor, ours, peer

from compile.graph import NeedsConstantError
from compile.runner import GraphRunner
from modeld.errors import ModeldError

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name: str, kind: int, shape: Sequence[int] | None = ()) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    known: dict[str, Array] | None = None,
    opset: int = 16,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "graph",
        inputs,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (known or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def branch(name: str, op: str, output: str, shape: Sequence[int]) -> onnx.GraphProto:
    node = helper.make_node(op, ["x", "two"], [output])
    return helper.make_graph([node], name, [], [info(output, FLOAT, shape)])


def if_model(condition: onnx.ValueInfoProto | None, known: dict[str, Array]) -> onnx.ModelProto:
    node = helper.make_node(
        "If",
        ["c"],
        ["y"],
        then_branch=branch("then", "Mul", "t", [3]),
        else_branch=branch("else", "Sub", "e", [3]),
    )
    given = [info("x", FLOAT, [3])] + ([condition] if condition else [])
    return model_of([node], given, ["y"], {"two": np.float32(2), **known})


X = np.array([1, 2, 3], np.float32)


@pytest.mark.parametrize(("condition", "expected"), [(True, X * 2), (False, X - 2)])
def test_a_known_condition_builds_one_branch(condition: bool, expected: Array) -> None:
    model = if_model(None, {"c": np.array(condition)})
    np.testing.assert_array_equal(ours(model, {"x": X})[0], expected)


@pytest.mark.parametrize(("condition", "expected"), [(True, X * 2), (False, X - 2)])
def test_a_computed_condition_selects(condition: bool, expected: Array) -> None:
    model = if_model(info("c", BOOL), {})
    np.testing.assert_array_equal(ours(model, {"x": X, "c": np.array(condition)})[0], expected)


def loop_model(count: bool, trips: int | None, stop_above: float | None = None) -> onnx.ModelProto:
    """Doubles v each turn and stacks the turns; with `stop_above`, while the sum is below."""
    nodes = [helper.make_node("Add", ["v", "v"], ["w"])]
    outputs = [info("go", BOOL), info("w", FLOAT, [2])]
    if stop_above is None:
        nodes.append(helper.make_node("Identity", ["again"], ["go"]))
        nodes.append(helper.make_node("Mul", ["w", "one"], ["s"]))
        outputs.append(info("s", FLOAT, [2]))
    else:
        nodes.append(helper.make_node("ReduceSum", ["w"], ["total"], keepdims=0))
        nodes.append(helper.make_node("Less", ["total", "bound"], ["go"]))
    turn = [info("n", INT), info("again", BOOL), info("v", FLOAT, [2])]
    body = helper.make_graph(nodes, "body", turn, outputs)
    known: dict[str, Array] = {"yes": np.array(True), "one": np.float32(1)}
    if trips is not None:
        known["trips"] = np.array(trips, np.int64)
    if stop_above is not None:
        known["bound"] = np.float32(stop_above)
    made = ["last"] if stop_above is not None else ["last", "all"]
    node = helper.make_node(
        "Loop", ["trips" if trips is not None or count else "", "yes", "x"], made, body=body
    )
    given = [info("x", FLOAT, [2])] + ([info("trips", INT)] if count else [])
    return model_of([node], given, made, known)


def test_a_loop_with_a_known_count_is_unrolled() -> None:
    model, x = loop_model(False, 3), np.array([1, 2], np.float32)
    last, all_ = ours(model, {"x": x})
    np.testing.assert_array_equal(last, x * 8)
    np.testing.assert_array_equal(all_, [x * 2, x * 4, x * 8])


@pytest.mark.parametrize("bound", [5.0, 20.0, 1e9])
def test_a_computed_condition_keeps_the_last_valid_turn(bound: float) -> None:
    model, given = loop_model(False, 5, bound), {"x": np.array([1, 2], np.float32)}
    np.testing.assert_array_equal(ours(model, given)[0], peer(model, given)[0])


def test_a_count_that_is_an_input_must_be_frozen() -> None:
    with pytest.raises(NeedsConstantError, match="--const trips=") as error:
        GraphRunner(loop_model(True, None))(
            {"x": device_tensor(X[:2]), "trips": device_tensor(np.array(2))}
        )
    assert error.value.inputs == ("trips",)


def test_a_loop_without_an_end_is_refused() -> None:
    with pytest.raises(ModeldError, match=r"Loop:last.*more than 4096 turns"):
        ours(loop_model(False, 5000), {"x": X[:2]})


def scan_model(**attributes: Sequence[int]) -> onnx.ModelProto:
    """A running sum over x, and each partial sum."""
    nodes = [
        helper.make_node("Add", ["s", "item"], ["t"]),
        helper.make_node("Identity", ["t"], ["each"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [info("s", FLOAT, [2]), info("item", FLOAT, [2])],
        [info("t", FLOAT, [2]), info("each", FLOAT, [2])],
    )
    node = helper.make_node(
        "Scan", ["zero", "x"], ["sum", "sums"], body=body, num_scan_inputs=1, **attributes
    )
    known = {"zero": np.zeros(2, np.float32)}
    shape = [2, 3] if attributes.get("scan_input_axes") == [1] else [3, 2]
    return model_of([node], [info("x", FLOAT, shape)], ["sum", "sums"], known)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scan_input_directions": [1]},
        {"scan_output_directions": [1]},
        {"scan_input_axes": [1], "scan_output_axes": [1]},
    ],
)
def test_scan_directions_and_axes(attributes: dict[str, Sequence[int]]) -> None:
    model = scan_model(**attributes)
    shape = (2, 3) if "scan_input_axes" in attributes else (3, 2)
    given = {"x": np.arange(6, dtype=np.float32).reshape(shape)}
    for found, expected in zip(ours(model, given), peer(model, given), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_branches_of_different_shapes_need_a_known_condition() -> None:
    node = helper.make_node(
        "If",
        ["c"],
        ["y"],
        then_branch=branch("then", "Mul", "t", [3]),
        else_branch=helper.make_graph(
            [helper.make_node("Identity", ["two"], ["e"])], "else", [], [info("e", FLOAT)]
        ),
    )
    known = {"two": np.float32(2)}
    model = model_of([node], [info("x", FLOAT, [3]), info("c", BOOL)], ["y"], known)
    with pytest.raises(ModeldError, match=r"If:y.*its branches differ"):
        ours(model, {"x": X, "c": np.array(True)})
