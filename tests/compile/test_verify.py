"""The gates: each passes what is right and names what is wrong."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import QueueModel, conv_model, queue_model

from compile.capture import Capture, Launch, Operand, Storage
from compile.double import DoubleReference
from compile.samples import random_inputs
from compile.verify import (
    CannotRunError,
    Comparison,
    Known,
    OnnxReference,
    OnnxRuntime,
    RunFunction,
    compare_with,
    largest_difference,
    require_equal,
    require_no_update_in_place,
    require_seeds_differ,
    run_turns,
    tolerances,
    value_range,
    with_all_values,
)
from modeld.errors import ModeldError
from modeld.manifest import Contract, Slice, StatePair, Tensor, Tolerance
from modeld.selftest import with_heads

CONTRACT = Contract(
    "generic",
    "generic",
    (Tensor("x", (2,), "float32"), Tensor("s", (2,), "float32")),
    (Tensor("y", (2,), "float32"), Tensor("next_s", (2,), "float32")),
    (StatePair("s", "next_s"),),
    (),
    (),
    (),
)


def accumulate(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    total = inputs["s"] + inputs["x"]
    return {"y": 2 * total, "next_s": total}


def test_state_is_fed_back_from_zero() -> None:
    x = np.array([1, 2], np.float32)
    assert run_turns(accumulate, CONTRACT, {"x": x}, 3).keys() == {"y"}
    np.testing.assert_array_equal(run_turns(accumulate, CONTRACT, {"x": x}, 3)["y"], 6 * x)


def test_queue_model_in_onnxruntime_is_the_numpy_model(tmp_path: Path) -> None:
    # Two independent statements of the queues, before ours is compared with either.
    runtime = OnnxRuntime(onnx.load(queue_model(tmp_path / "q.onnx")), tmp_path)
    expected, rng = QueueModel(), np.random.default_rng(0)
    state = {
        "state_img_q": expected.images,
        "state_desire_q": expected.desires,
        "state_feat_q": expected.features,
    }
    for _ in range(120):
        inputs = {
            "img": rng.integers(0, 256, (2, 3, 4), np.uint8),
            "desire": rng.random((1, 8)).astype(np.float32),
            "feat": rng.random((1, 16)).astype(np.float32),
        }
        found = runtime({**inputs, **state})
        for name, array in expected.step(inputs).items():
            np.testing.assert_array_equal(found[name], array, strict=True)
        state = {name: found[f"next_{name}"] for name in state}


def test_equality_is_bit_for_bit() -> None:
    a = {"y": np.array([1.0, np.nan, -0.0], np.float32)}
    require_equal("two runs", a, {"y": a["y"].copy()})
    with pytest.raises(ModeldError, match=r"two runs differ in output y \(2 of 3"):
        require_equal("two runs", a, {"y": np.nextafter(a["y"], np.float32(2))})
    with pytest.raises(ModeldError, match="gate failed"):
        require_equal("two runs", a, {"y": np.array([1.0, np.nan, 0.0], np.float32)})


def test_update_in_place_is_refused() -> None:
    storages = (Storage("input", "q", 8), Storage("scratch", "", 8))
    apart = Launch(
        "", "copy", (1,), None, (Operand(1, 0, 8, "write"), Operand(0, 0, 8, "read")), ""
    )
    require_no_update_in_place(Capture((apart,), storages, {}))
    both = Launch(
        "", "shift", (1,), None, (Operand(0, 0, 4, "write"), Operand(0, 4, 4, "read")), ""
    )
    twice = Launch("", "add", (1,), None, (Operand(0, 0, 8, "read_write"),), "")
    for launch in (both, twice):
        with pytest.raises(ModeldError, match=f"{launch.kernel} reads and writes one .*input q"):
            require_no_update_in_place(Capture((apart, launch), storages, {}))


def test_second_seed_must_change_something() -> None:
    same, other = {"y": np.zeros(2), "k": np.ones(2)}, {"y": np.ones(2), "k": np.ones(2)}
    require_seeds_differ(Known({}, {1: same, 2: other}), ["y"])
    # What depends on no input may stay.
    require_seeds_differ(Known({}, {1: same, 2: same}), [])
    with pytest.raises(ModeldError, match="outputs y are the same for two different inputs"):
        require_seeds_differ(Known({}, {1: same, 2: same}), ["y"])


def test_outputs_that_are_nan_are_named_as_such() -> None:
    lost = {name: np.full(2, np.nan, np.float32) for name in "yz"}
    known = Known({}, {1: lost, 2: lost})
    with pytest.raises(ModeldError, match="output y is NaN for random inputs"):
        require_seeds_differ(known, ["y"])
    with pytest.raises(ModeldError, match="outputs y, z are NaN for random inputs"):
        require_seeds_differ(known, ["y", "z"])


def test_tolerances_follow_type_and_range() -> None:
    outputs = {
        "f32": np.array([0, 100], np.float32),
        "f16": np.array([-1, 1], np.float16),
        "u8": np.array([0, 255], np.uint8),
        "index": np.array([7], np.int64),
        "flag": np.array(True),
        "zero": np.zeros(3, np.float32),
    }
    assert {t.output: t.absolute for t in tolerances(outputs, False, False)} == {
        "f32": "1.0e-02",
        "f16": "4.0e-02",
        "u8": "1",
        "index": "0",
        "flag": "0",
        "zero": "1.0e-04",
    }
    single = {"f": outputs["f32"]}
    assert tolerances(single, quantised=True, half=False)[0].absolute == "5.0e+00"
    assert tolerances(single, quantised=False, half=True)[0].absolute == "2.0e+00"


def test_range_and_difference_with_non_finite_values() -> None:
    assert value_range(np.array([-1.0, np.inf, np.nan, 3.0])) == 4.0
    assert value_range(np.array([5.0, 5.0])) == 5.0
    assert value_range(np.array([np.nan])) == 1.0
    nan = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert largest_difference(nan, nan) == 0.0
    assert largest_difference(nan, np.array([np.nan, np.inf, -np.inf, 1.5])) == 0.5
    assert largest_difference(nan, np.array([0.0, np.inf, -np.inf, 1.0])) == np.inf
    assert largest_difference(np.zeros(0), np.zeros(0)) == 0.0


def known(shift: float) -> Known:
    x = np.array([1, 2], np.float32)
    return Known({7: {"x": x}}, {7: {"y": 4 * x + np.float32(shift)}})


ALLOWED = (Tolerance("y", "0.5", "0"),)


def nobody_knows() -> RunFunction:
    raise CannotRunError("no evaluator")


def test_second_implementation() -> None:
    compared = compare_with(accumulate, "numpy", CONTRACT, known(0.1), 2, ALLOWED, nobody_knows)
    (error,) = compared.errors
    assert (error.output, error.against, error.absolute) == ("y", "numpy", "1.0e-01")
    assert error.relative_to_range == "2.5e-02"
    assert compared.tolerances == ALLOWED
    with pytest.raises(
        ModeldError, match=r"y differs from numpy by 0\.75 .*seed 7\), allowed 0\.5"
    ):
        compare_with(accumulate, "numpy", CONTRACT, known(0.75), 2, ALLOWED, nobody_knows)

    def wider(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: array.astype(np.float64) for name, array in accumulate(inputs).items()}

    with pytest.raises(ModeldError, match=r"y is float32\[2\], numpy gives float64\[2\]"):
        compare_with(wider, "numpy", CONTRACT, known(0.0), 2, ALLOWED, nobody_knows)


@pytest.mark.parametrize(("shift", "accepted"), [(0.25, True), (0.75, True), (0.875, False)])
def test_the_truth_decides_between_two(shift: float, accepted: bool) -> None:
    """The second implementation is off by a quarter; we may be off by twice as much."""

    def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = accumulate(inputs)
        return {**outputs, "y": outputs["y"] + 0.25}

    def compare() -> Comparison:
        tight = (Tolerance("y", "0.125", "0"),)
        return compare_with(accumulate, "numpy", CONTRACT, known(shift), 2, tight, lambda: truth)

    if accepted:
        assert float(compare().tolerances[0].absolute) == 4 * shift
    else:
        with pytest.raises(ModeldError, match="gate failed: output y differs from numpy"):
            compare()


def test_heads_are_judged_by_their_own_range() -> None:
    """A probability that is off by 0.01 hides in a vector that holds 200 metres."""
    contract = replace(
        CONTRACT,
        outputs=(Tensor("outputs", (1, 4), "float32"), CONTRACT.outputs[1]),
        output_slices=(Slice("plan", 0, 2), Slice("prob", 2, 4)),
    )

    def reference(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"outputs": np.array([[0, 200, 0.25, 0.75]], np.float32), "next_s": inputs["s"]}

    outputs = {"outputs": np.array([[0, 200, 0.26, 0.75]], np.float32)}
    wrong = Known({7: {"x": np.zeros(2, np.float32)}}, {7: outputs})
    allowed = tolerances(with_heads(contract, outputs), quantised=False, half=False)
    assert {t.output: t.absolute for t in allowed} == {
        "outputs": "2.0e-02",
        "outputs.plan": "2.0e-02",
        "outputs.prob": "4.9e-05",
    }
    with pytest.raises(ModeldError, match=r"output outputs\.prob differs from ort by 0\.01 "):
        compare_with(reference, "ort", contract, wrong, 1, allowed, nobody_knows)


def test_intermediate_values(tmp_path: Path) -> None:
    model = onnx.load(conv_model(tmp_path / "m.onnx"))
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 16)).astype(np.float32)
    values = OnnxRuntime(with_all_values(model), tmp_path)({"x": x})
    assert values.keys() == {"c", "r", "p", "y"}
    np.testing.assert_array_equal(values["r"], np.maximum(values["c"], 0))


def test_models_that_onnxruntime_cannot_run(tmp_path: Path) -> None:
    model = onnx.load(conv_model(tmp_path / "m.onnx"))
    with pytest.raises(ModeldError, match="ONNX Runtime cannot run this model"):
        OnnxRuntime(model, tmp_path)({"x": np.zeros((1, 2, 8, 16), np.float32)})
    model.graph.node[0].op_type = "Frobnicate"
    with pytest.raises(ModeldError, match="Frobnicate"):
        OnnxRuntime(model, tmp_path)


def test_onnx_evaluator_is_a_second_implementation(tmp_path: Path) -> None:
    model = onnx.load(conv_model(tmp_path / "m.onnx"))
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 16)).astype(np.float32)
    runtime, evaluator = OnnxRuntime(model, tmp_path), OnnxReference(model, tmp_path)
    assert runtime.name.startswith("onnxruntime ") and evaluator.name.startswith("onnx ")
    np.testing.assert_allclose(evaluator({"x": x})["y"], runtime({"x": x})["y"], rtol=1e-5)
    with pytest.raises(CannotRunError, match="cannot run this model"):
        evaluator({"x": x[:, :2]})
    model.graph.node[0].op_type = "Frobnicate"
    with pytest.raises(CannotRunError, match="Frobnicate"):
        OnnxReference(model, tmp_path)


def test_random_inputs_fit_their_types() -> None:
    tensors = (
        Tensor("f", (1000,), "float16"),
        Tensor("img", (1000,), "uint8"),
        Tensor("index", (1000,), "int64"),
        Tensor("flag", (1000,), "bool"),
    )
    first, second = random_inputs(tensors, 1), random_inputs(tensors, 1)
    for tensor in tensors:
        array = first[tensor.name]
        assert (array.shape, array.dtype.name) == (tensor.shape, tensor.dtype)
        np.testing.assert_array_equal(array, second[tensor.name])
        assert not np.array_equal(array, random_inputs(tensors, 2)[tensor.name])
    assert abs(float(first["f"].astype("f4").std()) - 1) < 0.1
    assert len(np.unique(first["img"])) > 200
    assert set(np.unique(first["index"])) == {0, 1}
    given = np.full(1000, 9, np.int64)
    assert random_inputs(tensors, 1, {"index": given})["index"] is given


def test_float64_tells_the_truth(tmp_path: Path) -> None:
    model = onnx.load(conv_model(tmp_path / "m.onnx"))
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 16)).astype(np.float32)
    exact = DoubleReference(model, tmp_path)({"x": x})["y"]
    assert exact.dtype == np.float64
    error = np.abs(OnnxRuntime(model, tmp_path)({"x": x})["y"] - exact).max()
    assert 0 < error < 1e-6
