"""Networks that people have: through the build and the executor, against ONNX Runtime.

The build fails by itself when ONNX Runtime disagrees; here the artifact is asked again, with
inputs that the build has not seen.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from compile.build import build
from compile.double import DoubleReference
from compile.request import BuildRequest
from modeld import Executor, open_artifact
from modeld.opencl import select_device

# Path below the data folder, values of symbolic dimensions.
MODELS = {
    "dmonitoring-0.8.9": ("models/openpilot/dmonitoring_model_0.8.9.onnx", {}),
    "vitTracker": ("models/other/vitTracker.onnx", {}),
    "dtln-1": ("models/other/dtln_model_1.onnx", {}),
}
# Half a minute of compiling and more, each.
LARGE_MODELS = {
    "supercombo-0.7": ("models/openpilot/supercombo_0.7_topology_random_weights.onnx", {}),
    "yolox-nano": ("models/other/yolox_nano.onnx", {}),
    "ultraface": ("models/other/ultraface_rfb_320.onnx", {}),
    "twinlitenet": ("models/driving/twinlitenet.onnx", {}),
    "dtln-2": ("models/other/dtln_model_2.onnx", {}),
    "dmonitoring-0.7": ("models/openpilot/dmonitoring_model_0.7.onnx", {"N": 1}),
}


@pytest.mark.parametrize(
    "name", [*MODELS, *(pytest.param(n, marks=pytest.mark.slow) for n in LARGE_MODELS)]
)
def test_equals_onnxruntime(name: str, data_path: Callable[[str], Path], tmp_path: Path) -> None:
    relative, dims = (MODELS | LARGE_MODELS)[name]
    model = data_path(relative)
    build(BuildRequest(model, tmp_path / "artifact", dims=dims))
    artifact = open_artifact(tmp_path / "artifact")
    executor = Executor(artifact, select_device())
    session = onnxruntime.InferenceSession(model)
    rng = np.random.default_rng(11)
    inputs = {
        tensor.name: rng.standard_normal(tensor.shape).astype(tensor.dtype)
        for tensor in artifact.manifest.contract.inputs
    }
    found = executor.run("run_model", inputs)
    names = [output.name for output in session.get_outputs()]
    for output, expected in zip(names, session.run(names, inputs), strict=True):
        difference = np.max(np.abs(found[output] - expected))
        if difference > 1e-4 * np.ptp(expected):
            # The model makes much of every rounding: then ours is as near to the truth.
            truth = DoubleReference(onnx.load(model), model.parent)(inputs)[output]
            theirs = np.max(np.abs(expected - truth))
            assert np.max(np.abs(found[output] - truth)) <= 2 * theirs, output
