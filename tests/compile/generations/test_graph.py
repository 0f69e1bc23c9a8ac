"""Nodes for any opset, and graphs under other names."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from driving_generations import session_of, write
from driving_interfaces import INTERFACES
from onnx import TensorProto, helper
from onnx_models import save_model, tensor

from compile.generations.graph import Builder
from compile.importer import import_model
from modeld.manifest import Tensor


@pytest.mark.parametrize("opset", [8, 9, 10, 13, 17, 18, 21])
def test_operators_of_every_opset(opset: int) -> None:
    build = Builder(opset)
    build.input(Tensor("x", (12, 3), "float32"))
    build.rows("some", "x", 1, 10, 4)
    build.rows("column", "x", 1, 3, axis=1)
    build.greatest("greatest", build.reshape("blocks", "x", (3, 4, 3)), 1)
    build.cast("half", build.join("joined", ["x", "some"]), "float16")
    shapes = {"some": (3, 3), "column": (12, 2), "greatest": (3, 3)}
    for name, shape in shapes.items():
        build.output(Tensor(name, shape, "float32"))
    build.output(Tensor("half", (15, 3), "float16"))
    model = helper.make_model(
        build.graph("g"), opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )
    onnx.checker.check_model(model, full_check=True)
    x = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
    some, column, greatest, half = session_of(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(some, x[[1, 5, 9]], strict=True)
    np.testing.assert_array_equal(column, x[:, 1:], strict=True)
    np.testing.assert_array_equal(greatest, x.reshape(3, 4, 3).max(axis=1), strict=True)
    joined = np.concatenate([x, x[[1, 5, 9]]]).astype(np.float16)
    np.testing.assert_array_equal(half, joined, strict=True)


def test_graphs_inside_nodes_see_the_new_names(tmp_path: Path) -> None:
    # y = x + c or x - c, as a sum decides; both branches take x and c from outside.
    branches = {
        f"{word}_branch": helper.make_graph(
            [helper.make_node(operator, ["x", "c"], [f"{word}_y"], name=word)],
            word,
            [],
            [tensor(f"{word}_y", (4,))],
        )
        for word, operator in (("then", "Add"), ("else", "Sub"))
    }
    path = save_model(
        tmp_path / "m.onnx",
        [
            helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
            helper.make_node("Greater", ["sum", "zero"], ["positive"]),
            helper.make_node("If", ["positive"], ["y"], name="if", **branches),
        ],
        [tensor("x", (4,))],
        [tensor("y", (4,))],
        {"c": np.float32([1, 2, 3, 4]), "zero": np.float32(0)},
    )
    build = Builder(17)
    build.input(Tensor("z", (4,), "float32"))
    build.graph_of(onnx.load(path), {"x": "z"}, "part/", "nodes/")
    build.output(Tensor("part/y", (4,), "float32"))
    model = helper.make_model(
        build.graph("g"), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.checker.check_model(model, full_check=True)
    assert [node.name for node in model.graph.node] == ["", "", "nodes/if"]
    z = np.float32([1, -2, 3, 4])
    run = session_of(model.SerializeToString())
    np.testing.assert_array_equal(run.run(None, {"z": z})[0], z + np.arange(1, 5))
    np.testing.assert_array_equal(run.run(None, {"z": -z})[0], -z - np.arange(1, 5))


def test_functions_of_a_file_are_put_in_place(tmp_path: Path) -> None:
    model = onnx.load(write(INTERFACES["2024-12"][1][0], tmp_path / "m.onnx"))
    model.functions.append(
        helper.make_function(
            "own",
            "Same",
            ["a"],
            ["b"],
            [helper.make_node("Identity", ["a"], ["b"])],
            [helper.make_opsetid("", 17)],
        )
    )
    model.opset_import.append(helper.make_opsetid("own", 1))
    # The frames go through the function first.
    for node in model.graph.node:
        node.input[:] = ["frames" if name == "input_imgs" else name for name in node.input]
    same = helper.make_node("Same", ["input_imgs"], ["frames"], domain="own")
    model.graph.node.insert(0, same)
    onnx.save(model, tmp_path / "m.onnx")
    wrapped = import_model(tmp_path / "m.onnx", {}).model
    assert not wrapped.functions
    onnx.checker.check_model(wrapped, full_check=True)
    operators = {node.op_type for node in wrapped.graph.node}
    assert "Same" not in operators
    assert wrapped.graph.input[0].type.tensor_type.elem_type == TensorProto.UINT8
