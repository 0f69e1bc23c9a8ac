"""The graph runner: what is known at build time, what is frozen, what an error says."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from single_node import device_tensor, node_model, ours
from tinygrad import Tensor

from compile.graph import NeedsConstantError, deciding_inputs
from compile.ops.registry import UnsupportedNodeError
from compile.runner import GraphRunner
from modeld.errors import ModeldError

F = np.float32


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    outputs: list[str],
    known: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (known or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def shape_arithmetic() -> onnx.ModelProto:
    """x (2,3,4) reshaped to (2, 12) by numbers computed from its shape."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], axis=0),
        helper.make_node("Unsqueeze", ["batch", "zeros"], ["first"]),
        helper.make_node("Concat", ["first", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["y"]),
    ]
    known = {"zero": np.array(0), "zeros": np.array([0]), "rest": np.array([-1])}
    return model_of(nodes, {"x": np.zeros((2, 3, 4), F)}, ["y"], known)


def test_shape_arithmetic_happens_at_build_time() -> None:
    runner = GraphRunner(shape_arithmetic())
    x = np.arange(24, dtype=F).reshape(2, 3, 4)
    y = runner({"x": device_tensor(x)})["y"]
    assert y.shape == (2, 12)
    assert runner.constants.named == []
    np.testing.assert_array_equal(y.numpy(), x.reshape(2, 12))


def test_a_second_call_uploads_nothing_new() -> None:
    w = np.random.default_rng(0).standard_normal((4, 4)).astype(F)
    nodes = [
        helper.make_node("Transpose", ["w"], ["wt"]),
        helper.make_node("MatMul", ["x", "wt"], ["a"]),
        helper.make_node("Add", ["a", "w"], ["y"]),
    ]
    x = np.eye(4, dtype=F)
    runner = GraphRunner(model_of(nodes, {"x": x}, ["y"], {"w": w}))
    first = runner({"x": device_tensor(x)})["y"].numpy()
    names = [name for name, _ in runner.constants.named]
    second = runner({"x": device_tensor(x)})["y"].numpy()
    assert [name for name, _ in runner.constants.named] == names == ["wt", "w"]
    np.testing.assert_array_equal(first, w.T + w)
    np.testing.assert_array_equal(second, first)


def test_a_uniform_constant_takes_no_memory() -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    x = np.arange(3, dtype=F)
    runner = GraphRunner(model_of(nodes, {"x": x}, ["y"], {"w": np.full(3, 7, F)}))
    np.testing.assert_array_equal(runner({"x": device_tensor(x)})["y"].numpy(), x + 7)
    assert runner.constants.named == []


def test_frozen_inputs_are_no_inputs() -> None:
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    inputs = {"x": np.zeros(6, F), "s": np.zeros(2, np.int64)}
    model = model_of(nodes, inputs, ["y"])
    runner = GraphRunner(model, frozen={"s": np.array([2, 3])})
    assert runner.inputs == ("x",)
    assert runner({"x": device_tensor(inputs["x"])})["y"].shape == (2, 3)
    with pytest.raises(NeedsConstantError, match=r"--const s=FILE\.safetensors") as error:
        GraphRunner(model)({name: device_tensor(array) for name, array in inputs.items()})
    assert error.value.inputs == ("s",)


def test_outputs_that_depend_on_no_input_are_on_the_device() -> None:
    nodes = [
        helper.make_node("Add", ["w", "w"], ["known"]),
        helper.make_node("Neg", ["x"], ["y"]),
    ]
    known = {"w": np.arange(3, dtype=F)}
    model = model_of(nodes, {"x": np.zeros(1, F)}, ["known", "y"], known)
    found, _ = ours(model, {"x": np.ones(1, F)})
    np.testing.assert_array_equal(found, [0, 2, 4])


def test_element_types_are_those_of_onnx() -> None:
    # tinygrad would sum small integers to int32 and take positions as int32.
    model = node_model("ReduceSum", [np.ones((2, 3), np.int64)], opset=13)
    assert ours(model, {"i0": np.ones((2, 3), np.int64)})[0].dtype == np.int64
    model = node_model("ArgMax", [np.ones((2, 3), F)], opset=13)
    assert ours(model, {"i0": np.ones((2, 3), F)})[0].dtype == np.int64


def test_local_functions_are_inlined() -> None:
    function = helper.make_function(
        "local",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    graph = helper.make_graph(
        [helper.make_node("Twice", ["x"], ["y"], domain="local")],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
    )
    model = helper.make_model(
        graph,
        functions=[function],
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("local", 1)],
        ir_version=8,
    )
    np.testing.assert_array_equal(ours(model, {"x": np.arange(3, dtype=F)})[0], [0, 2, 4])


def test_external_weights_are_read_from_beside_the_model(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    w = np.arange(300, dtype=F)
    model = model_of(nodes, {"x": np.zeros(300, F)}, ["y"], {"w": w})
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    bare = onnx.load(path, load_external_data=False)
    runner = GraphRunner(bare, base_dir=tmp_path)
    found = runner({"x": device_tensor(np.ones(300, F))})["y"].numpy()
    np.testing.assert_array_equal(found, w + 1)


def test_an_unknown_operator_is_named_with_its_opset() -> None:
    model = node_model("Wobble", [np.zeros(1, F)], domain="com.example")
    with pytest.raises(UnsupportedNodeError, match=r"node it: com\.example Wobble \(opset 1\)"):
        GraphRunner(model)


def test_an_attribute_that_is_not_honoured_is_named() -> None:
    model = node_model("Relu", [np.zeros(1, F)], shape_of_things=3)
    with pytest.raises(UnsupportedNodeError, match=r"Relu .*not supported with shape_of_things"):
        GraphRunner(model)


def test_shapes_that_do_not_fit_are_reported_with_the_node() -> None:
    inputs = [np.zeros((2, 3), F), np.zeros((2, 3), F)]
    model = node_model("MatMul", inputs)
    with pytest.raises(ModeldError, match=r"node it: MatMul cannot be built: .*2, 3"):
        ours(model, {"i0": inputs[0], "i1": inputs[1]})


def test_an_output_that_only_training_has_is_named() -> None:
    x, ones = np.zeros((1, 2), F), np.ones(2, F)
    model = node_model("BatchNormalization", [x, ones, ones, ones, ones], 2, opset=9)
    with pytest.raises(ModeldError, match="outputs: nothing computes o1"):
        ours(model, {f"i{n}": a for n, a in enumerate([x, ones, ones, ones, ones])})


def test_a_missing_input_is_named() -> None:
    runner = GraphRunner(node_model("Add", [np.zeros(1, F), np.zeros(1, F)]))
    with pytest.raises(ModeldError, match="no value for the inputs i1"):
        runner({"i0": Tensor.zeros(1)})


def test_only_values_that_reach_it_decide() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["a"]),
        helper.make_node("Add", ["a", "n"], ["b"]),
        helper.make_node("Reshape", ["z", "b"], ["y"]),
    ]
    inputs = {"x": np.zeros(1, F), "n": np.zeros(1, np.int64), "z": np.zeros(1, F)}
    graph = model_of(nodes, inputs, ["y"]).graph
    assert deciding_inputs(graph, "b") == ["n"]
    assert deciding_inputs(graph, "y") == ["n", "z"]
