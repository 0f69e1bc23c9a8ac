"""Inputs of the known runs, and that inputs without dimensions stay inputs."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx_models import save_model, tensor

from compile.build import build
from compile.request import BuildRequest
from compile.samples import random_inputs
from modeld import Executor, open_artifact
from modeld.manifest import Tensor


def test_given_values_are_shuffled_within_each_input() -> None:
    tensors = [Tensor("a", (2, 8), "float32", ""), Tensor("b", (3,), "int64", "")]
    given = {"a": np.arange(16, dtype=np.float32).reshape(2, 8)}
    found = random_inputs(tensors, 7, given, shuffled=True)
    assert found["a"].shape == (2, 8)
    assert not np.array_equal(found["a"], given["a"])
    np.testing.assert_array_equal(np.sort(found["a"], None), np.arange(16))
    assert set(found["b"]) <= {0, 1}
    np.testing.assert_array_equal(random_inputs(tensors, 7, given, shuffled=True)["a"], found["a"])
    assert random_inputs(tensors, 7, given)["a"] is given["a"]


@pytest.mark.parametrize("given", [{}, {"s": np.array(2, np.float32)}])
def test_a_scalar_input_is_read_on_every_run(tmp_path: Path, given: dict[str, np.ndarray]) -> None:
    model = save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Mul", ["x", "s"], ["y"])],
        [tensor("x", (3,)), tensor("s", ())],
        [tensor("y", (3,))],
    )
    build(BuildRequest(model, tmp_path / "artifact", reference_inputs=given))
    executor = Executor(open_artifact(tmp_path / "artifact"))
    x = np.array([1, 2, 3], np.float32)
    for scale in (2, -5):
        inputs = {"x": x, "s": np.array(scale, np.float32)}
        np.testing.assert_array_equal(executor.run("run_model", inputs)["y"], x * scale)
