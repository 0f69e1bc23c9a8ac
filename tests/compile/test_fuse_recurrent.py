"""GRU and LSTM with and without fusion, against onnxruntime; what tinygrad keeps."""

from collections import Counter

import numpy as np
import onnx
import pytest
from fused_models import make_model, own_kernels, run_ort, run_ours
from onnx import TensorProto, helper

from compile.fuse import fuse
from compile.kernels import recurrent
from compile.tune import Tiles, Tuning

pytestmark = pytest.mark.usefixtures("device")

F = np.float32
INPUTS, HIDDEN = 5, 19
GATES = {"GRU": 3, "LSTM": 4}


def model_of(
    op: str,
    steps: int = 4,
    batch: int = 1,
    left_out: str = "",
    outputs: str = "YHC",
    known: dict[str, np.ndarray] | None = None,
    **attributes: object,
) -> onnx.ModelProto:
    """A node with constant weights and the states as inputs; `left_out` names the operands that it
    lacks, `known` gives some as constants."""
    rng = np.random.default_rng(0)
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    columns, state = GATES[op] * HIDDEN, (directions, batch, HIDDEN)
    constants = {
        "w": rng.standard_normal((directions, columns, INPUTS)).astype(F),
        "r": (rng.standard_normal((directions, columns, HIDDEN)) / HIDDEN**0.5).astype(F),
        "b": rng.standard_normal((directions, 2 * columns)).astype(F),
        **(known or {}),
    }
    given = {"x": (steps, batch, INPUTS), "h": state, "c": state}
    names = ["x", "w", "r", "b", "lengths", "h"] + ["c", "p"] * (op == "LSTM")
    missing = {*left_out.split(), *({"lengths", "p"} - constants.keys())}
    reads = [name if name not in missing else "_" for name in names]
    node = (
        op,
        " ".join(reads),
        "Y H C" if op == "LSTM" else "Y H",
        {"hidden_size": HIDDEN, **attributes},
    )
    model = make_model(
        [node],
        {name: shape for name, shape in given.items() if name in reads and name not in constants},
        [name for name in node[2].split() if name in outputs],
        {name: values for name, values in constants.items() if name in reads},
    )
    made = model.graph.node[0].output
    made[:] = [name if name in outputs else "" for name in made]
    return model


def kernels_of(model: onnx.ModelProto) -> Counter[str]:
    return own_kernels(fuse(model, Tiles(Tuning())))


def assert_same(model: onnx.ModelProto, *others: onnx.ModelProto) -> None:
    """The model with kernels in it, and `others`, give what onnxruntime gives."""
    rng = np.random.default_rng(1)
    inputs = {
        i.name: rng.uniform(-1, 1, [d.dim_value for d in i.type.tensor_type.shape.dim]).astype(F)
        for i in model.graph.input
    }
    expected = run_ort(model, inputs)
    for graph in (fuse(model, Tiles(Tuning())), *others):
        for found, wanted in zip(run_ours(graph, inputs), expected, strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)


CASES: dict[str, onnx.ModelProto] = {
    "GRU": model_of("GRU", linear_before_reset=1),
    "GRU that resets the state": model_of("GRU", batch=2, direction="reverse"),
    "GRU in both directions": model_of(
        "GRU", batch=3, direction="bidirectional", linear_before_reset=1
    ),
    "GRU, without bias": model_of("GRU", left_out="b h", linear_before_reset=1, outputs="H"),
    "GRU, one step": model_of("GRU", steps=1, linear_before_reset=1),
    "LSTM": model_of("LSTM", outputs="Y"),
    "LSTM in both directions": model_of("LSTM", batch=2, direction="bidirectional"),
    "LSTM, one step, names and lengths": model_of(
        "LSTM",
        steps=1,
        left_out="b c",
        outputs="C",
        known={"lengths": np.array([1], np.int32)},
        activations=["Sigmoid", "tanh", "Tanh"],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("whole", [True, False])
def test_two_kernels(name: str, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not whole:
        monkeypatch.setattr(recurrent, "_MAX_WHOLE_BYTES", 0)
    model = CASES[name]
    product = "Dense" if "one step" in name else "Convolution"
    assert kernels_of(model) == Counter({product: 1, "Recurrent": 1})
    assert_same(model, *[model] * (whole and name in ("GRU", "LSTM")))


KEPT = {
    "peepholes": model_of("LSTM", known={"p": np.ones((1, 3 * HIDDEN), F)}),
    "coupled gates": model_of("LSTM", input_forget=1),
    "clip": model_of("GRU", clip=0.5),
    "other activations": model_of("GRU", activations=["HardSigmoid", "Tanh"]),
    "batch first": model_of("GRU", layout=1, left_out="h", batch=4),
    "lengths": model_of("LSTM", known={"lengths": np.array([3], np.int32)}),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_tinygrad_keeps(name: str) -> None:
    assert not kernels_of(KEPT[name])


def test_weights_that_are_an_input_stay_with_tinygrad() -> None:
    model = model_of("GRU")
    (weights,) = (t for t in model.graph.initializer if t.name == "r")
    model.graph.initializer.remove(weights)
    shape = tuple(weights.dims)
    model.graph.input.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, shape))
    assert not kernels_of(model)


def test_work_groups_have_no_such_kernel() -> None:
    fused = fuse(CASES["GRU"], Tiles(Tuning()), device_class="gpu")
    assert [node.op_type for node in fused.graph.node] == ["GRU"]
