"""ONNX training graphs, against ONNX's own reference evaluator."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner

from compile.training.checkpoint import CheckpointStore, load
from compile.training.onnx_training import OnnxTraining
from modeld.errors import ModeldError

DOMAIN = "ai.onnx.preview.training"
MOMENTS = {"Adam": ("V", "H"), "Adagrad": ("H",), "Momentum": ("V",)}
SHAPES = {"a": (2, 3), "b": (4,)}
# The evaluator takes 1 - alpha and sqrt(1 - beta^T) in float32, where these are exact for T < 2.
MOMENTUM = {"alpha": 0.75, "beta": 0.75, "norm_coefficient": 0.125}
ADAM = {**MOMENTUM, "epsilon": 0.0625, "norm_coefficient_post": 0.25}
ADAGRAD = {"epsilon": 0.0625, "decay_factor": 0.25, "norm_coefficient": 0.125}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "adam": ("Adam", ADAM),
    "adagrad": ("Adagrad", ADAGRAD),
    "momentum": ("Momentum", {**MOMENTUM, "mode": "standard"}),
    "nesterov": ("Momentum", {**MOMENTUM, "mode": "nesterov"}),
}


def training_model(
    op: str, attributes: dict[str, Any], kind: int, names: str = "ab"
) -> onnx.ModelProto:
    """One node that updates `a` and `b` from the gradients `Ga` and `Gb`."""
    groups = ["", "G", *MOMENTS[op]]
    inputs = [f"{group}{name}" for group in groups for name in names]
    outputs = [f"{g}{name}_new" for g in ["", *MOMENTS[op]] for name in names]

    def value(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, SHAPES[name.removesuffix("_new")[-1]])

    node = helper.make_node(op, ["R", "T", *inputs], outputs, domain=DOMAIN, **attributes)
    scalars = [
        helper.make_tensor_value_info("R", kind, []),
        helper.make_tensor_value_info("T", TensorProto.INT64, []),
    ]
    graph = helper.make_graph(
        [node], op, [*scalars, *map(value, inputs)], list(map(value, outputs))
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(model)
    return model


def arrays(dtype: type, seed: int, prefix: str = "") -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {prefix + n: generator.standard_normal(s).astype(dtype) for n, s in SHAPES.items()}


def gradients(dtype: type, step: int, names: str = "ab") -> dict[str, Tensor]:
    found = arrays(dtype, 100 + step, "G")
    return {f"G{name}": Tensor(found[f"G{name}"]).realize() for name in names}


def reference_steps(model: onnx.ModelProto, dtype: type, count: int) -> dict[str, np.ndarray]:
    """The state after `count` steps of ONNX's reference evaluator."""
    wanted = {i.name for i in model.graph.input}
    state = arrays(dtype, 0)
    for group in MOMENTS[model.graph.node[0].op_type]:
        state |= {group + name: np.zeros(shape, dtype) for name, shape in SHAPES.items()}
    evaluator = ReferenceEvaluator(model)
    for step in range(count):
        scalars = {"R": np.array(0.1, dtype), "T": np.array(step)}
        feeds = {**state, **scalars, **arrays(dtype, 100 + step, "G")}
        outputs = evaluator.run(None, {n: array for n, array in feeds.items() if n in wanted})
        names = [output.name.removesuffix("_new") for output in model.graph.output]
        state = {n: o.astype(dtype) for n, o in zip(names, outputs, strict=True)}
    return state


def assert_equals_reference(
    op: str, attributes: dict[str, Any], steps: int, names: str = "ab", **tolerance: float
) -> None:
    model = training_model(op, attributes, TensorProto.DOUBLE, names)
    training = OnnxTraining(model, arrays(np.float64, 0))
    for step in range(steps):
        assert training.run(gradients(np.float64, step, names), rate=0.1) == {}
    expected = reference_steps(model, np.float64, steps)
    assert training._state.keys() == expected.keys()
    for key, array in expected.items():
        np.testing.assert_allclose(training._state[key].numpy(), array, **tolerance, err_msg=key)


@pytest.mark.parametrize("name", CASES)
def test_steps_equal_the_reference_evaluator(name: str) -> None:
    # It rounds Adam's results to float32 when there are several parameters.
    names = "a" if name == "adam" else "ab"
    assert_equals_reference(*CASES[name], steps=2, names=names, rtol=1e-13)


@pytest.mark.parametrize("op", ["Adam", "Adagrad"])
def test_several_parameters_and_attributes_left_out(op: str) -> None:
    assert_equals_reference(op, {}, steps=3, rtol=0, atol=1e-7)


def test_a_saved_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    model = training_model(*CASES["adam"], TensorProto.FLOAT)
    training = OnnxTraining(model, arrays(np.float32, 0))
    for step in range(2):
        training.run(gradients(np.float32, step), rate=0.1)
    path = CheckpointStore(tmp_path).save(training.snapshot({"batch": 2}))
    training.run(gradients(np.float32, 2), rate=0.1)

    snapshot = load(path)
    assert snapshot.record.optimizers[0].kind == "ai.onnx.preview.training.Adam"
    assert snapshot.state.keys() == {(0, slot, name) for slot in "VH" for name in "ab"}
    resumed = OnnxTraining(model, arrays(np.float32, 9))
    resumed.restore(snapshot)
    assert (resumed.step, resumed.rate) == (2, 0.1)
    resumed.run(gradients(np.float32, 2), rate=0.1)
    assert resumed.snapshot() == training.snapshot()


def test_other_graphs_are_refused() -> None:
    snapshot = OnnxTraining(
        training_model(*CASES["momentum"], TensorProto.FLOAT), arrays(np.float32, 0)
    ).snapshot()
    other = OnnxTraining(
        training_model(*CASES["nesterov"], TensorProto.FLOAT), arrays(np.float32, 0)
    )
    with pytest.raises(ModeldError, match="mode of the optimizer is standard in the checkpoint, n"):
        other.restore(snapshot)
    adam = OnnxTraining(training_model(*CASES["adam"], TensorProto.FLOAT), arrays(np.float32, 0))
    with pytest.raises(ModeldError, match=r"is ai\.onnx.*Momentum in the checkpoint, ai\.onnx.*Ad"):
        adam.restore(snapshot)


def test_wrong_graphs_and_values_are_refused() -> None:
    model = training_model(*CASES["adam"], TensorProto.FLOAT)
    with pytest.raises(ModeldError, match=r"a is float64 \(2, 3\), the graph wants float32"):
        OnnxTraining(model, arrays(np.float64, 0))
    del model.graph.node[:]
    with pytest.raises(ModeldError, match=r"has no node of ai\.onnx\.preview"):
        OnnxTraining(model, {})


def test_what_tinygrads_own_operators_do() -> None:
    """Why they are not used; when this fails with a newer tinygrad, use them."""
    model = training_model("Adagrad", {}, TensorProto.FLOAT)
    runner = OnnxRunner(Tensor(model.SerializeToString()))
    values = {**arrays(np.float32, 0), **arrays(np.float32, 100, "G")}
    values |= {f"H{name}": np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    feeds = {name: Tensor(array).realize() for name, array in values.items()}
    rate, count = Tensor([0.1]), Tensor([0], dtype="int64")
    scalars = {n: t.realize().reshape(()) for n, t in (("R", rate), ("T", count))}
    outputs = runner({**feeds, **scalars})
    expected = reference_steps(model, np.float32, 1)
    # One output after the other, as reading them does: the second time the sum grows again.
    outputs["a_new"].numpy()
    np.testing.assert_allclose(outputs["Ha_new"].numpy(), 2 * expected["Ha"], rtol=1e-6)
