"""Who is compared: each peer is a function from inputs by name to outputs by name."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

Array = npt.NDArray[np.generic]
Arrays = dict[str, Array]
Run = Callable[[Mapping[str, Array]], Arrays]

THREADS = 2


def onnxruntime(path: Path) -> Run:
    """onnxruntime on the CPU with all its graph optimisations."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, dict(inputs)), strict=True))


def openvino(path: Path) -> Run:
    """OpenVINO on the CPU in float32 (its own choice on these machines would be bfloat16)."""
    import openvino

    core = openvino.Core()
    config = {
        "INFERENCE_NUM_THREADS": THREADS,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = core.compile_model(str(path), "CPU", config)
    request = compiled.create_infer_request()
    names = [output.get_any_name() for output in compiled.outputs]

    def run(inputs: Mapping[str, Array]) -> Arrays:
        results = request.infer(dict(inputs))
        return {name: results[n].copy() for n, name in enumerate(names)}

    return run


def tinygrad(path: Path) -> Run:
    """tinygrad's own kernels on the same OpenCL device, captured by its JIT."""
    from tinygrad import Tensor, TinyJit

    from compile.importer import import_model
    from compile.runner import GraphRunner
    from compile.values import from_numpy_dtype

    imported = import_model(path, {})
    runner = GraphRunner(imported.model, base_dir=imported.base_dir)

    def forward(**tensors: Tensor) -> dict[str, Tensor]:
        outputs = {name: t.contiguous() for name, t in runner(tensors).items()}
        Tensor.realize(*outputs.values())
        return outputs

    captured = TinyJit(forward)

    def run(inputs: Mapping[str, Array]) -> Arrays:
        given = {
            name: Tensor(np.ascontiguousarray(a), dtype=from_numpy_dtype(a.dtype)).realize()
            for name, a in inputs.items()
        }
        return {name: tensor.numpy() for name, tensor in captured(**given).items()}

    return run


class Ours:
    """An artifact on the executor; with `profile` every launch's time is recorded."""

    def __init__(self, artifact: Path, profile: bool = False) -> None:
        from modeld.artifact import open_artifact
        from modeld.executor import Executor

        self.executor = Executor(open_artifact(artifact), profile=profile)
        contract = self.executor.contract
        self._state = {pair.input for pair in contract.state}

    def __call__(self, inputs: Mapping[str, Array]) -> Arrays:
        """Run one turn; state inputs are the executor's own and start at zero."""
        given = {name: a for name, a in inputs.items() if name not in self._state}
        return self.executor.run("run_model", given)

    def reset(self) -> None:
        """Zero the state."""
        self.executor.reset()


def random_inputs(path: Path) -> Arrays:
    """Inputs for every peer: noise, bytes as bytes; recurrent state is zero.

    State is what the model hands over as `next_<input>`.
    """
    model = onnx.load_model(path, load_external_data=False)
    rng = np.random.default_rng(0)
    constants = {tensor.name for tensor in model.graph.initializer}
    outputs = {output.name for output in model.graph.output}
    inputs: Arrays = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if f"next_{value.name}" in outputs:
            inputs[value.name] = np.zeros(shape, dtype)
        elif dtype == np.uint8:
            inputs[value.name] = rng.integers(0, 256, shape, np.uint8)
        else:
            inputs[value.name] = rng.standard_normal(shape).astype(dtype)
    return inputs
