"""Small models, with our kernels in them or not, on the device and in onnxruntime."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from tinygrad import Tensor

from compile.capture import device_tensor, materialize
from compile.kernels import kernel_ops
from compile.ops import build_op_table
from compile.ops.registry import make_table
from compile.runner import GraphRunner

Array = np.ndarray[Any, Any]


def run_ort(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """Outputs in the model's order, by onnxruntime."""
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    outputs: list[Array] = session.run(None, dict(inputs))
    return outputs


def run_ours(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """Outputs in the model's order, by tinygrad's kernels and ours."""
    runner = GraphRunner(model, table=build_op_table() | make_table(kernel_ops()))
    outputs = materialize(runner({n: device_tensor(a) for n, a in inputs.items()}))
    Tensor.realize(*outputs.values())
    return [outputs[o.name].numpy() for o in model.graph.output]
