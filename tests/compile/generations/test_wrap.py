"""Every generation, wrapped, does what its host did: 200 frames, value by value."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from driving_generations import Array, File, Host, Run, host_turn, write
from driving_interfaces import INTERFACES

from compile.importer import ImportedModel, import_model

FRAMES = 200


def session(model: Path | bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run_of(path: Path) -> Run:
    made = session(path)
    return lambda feeds: made.run(["outputs"], feeds)[0]


def import_files(files: list[File], folder: Path) -> tuple[ImportedModel, list[Path]]:
    names = ["driving", "on_policy", "off_policy"]
    paths = [write(f, folder / f"{n}.onnx") for f, n in zip(files, names, strict=False)]
    return import_model(paths[0], {}, paths[1:]), paths


def drawn(rng: np.random.Generator) -> dict[str, Array]:
    """What the runtime gives in one frame."""
    desire = rng.integers(1, 200, (1, 8)) * (rng.random((1, 8)) < 0.2)
    given: dict[str, Array] = {
        "new_img": rng.integers(0, 256, (2, 6, 128, 256), np.uint8),
        "desire": desire.astype(np.float32),
    }
    for name in ("traffic_convention", "action_t", "lateral_control_params"):
        given[name] = rng.random((1, 2), np.float32)
    return given


@pytest.mark.parametrize("name", INTERFACES)
def test_equals_the_host(name: str, tmp_path: Path) -> None:
    generation, files = INTERFACES[name]
    imported, paths = import_files(files, tmp_path)
    assert imported.generation == generation
    onnx.checker.check_model(imported.model, full_check=True)
    wrapped = session(imported.model.SerializeToString())
    state = {
        i.name: np.zeros(i.shape, np.uint8 if "uint8" in i.type else np.float32)
        for i in wrapped.get_inputs()
        if i.name.startswith("state_")
    }
    wanted = {i.name for i in wrapped.get_inputs()} - state.keys()
    outputs = [o.name for o in wrapped.get_outputs()]
    assert sorted(outputs) == sorted(["outputs", *(f"next_{n}" for n in state)])

    host, runs = Host(files), [run_of(path) for path in paths]
    # One interpolation is in float32 here and was in float64 there; all else is copied.
    rtol = 1e-6 if "planner" in name else 0
    rng = np.random.default_rng(5)
    for frame in range(FRAMES):
        given = drawn(rng)
        feeds = {k: v for k, v in given.items() if k in wanted} | state
        found = dict(zip(outputs, wrapped.run(outputs, feeds), strict=True))
        expected = host_turn(host, files, runs, given)
        np.testing.assert_allclose(found["outputs"], expected, rtol, err_msg=f"frame {frame}")
        state = {n: found[f"next_{n}"] for n in state}
    # The comparison means something: every state has moved.
    assert all(np.ptp(array) > 0 for array in state.values())
