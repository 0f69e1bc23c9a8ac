"""Small models, with our kernels in them or not, on the device and in onnxruntime."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from tinygrad import Tensor

from compile.capture import device_tensor, materialize
from compile.fuse import DOMAIN
from compile.kernels import kernel_ops
from compile.kernels.joint import Joint
from compile.kernels.spec import decode
from compile.ops import build_op_table
from compile.ops.registry import make_table
from compile.runner import GraphRunner

Array = np.ndarray[Any, Any]
# Operator, names of inputs ("_": none) and of outputs, attributes.
Node = tuple[str, str, str, Mapping[str, object]]


def make_model(
    nodes: Sequence[Node],
    inputs: Mapping[str, Sequence[int]],
    outputs: Sequence[str],
    constants: Mapping[str, Array],
    opset: int = 17,
    dtypes: Mapping[str, type] | None = None,
) -> onnx.ModelProto:
    """The graph with shapes inferred; nodes are named by their outputs, inputs are float32 unless
    `dtypes` says what they are."""
    kinds = {name: np.dtype((dtypes or {}).get(name, np.float32)) for name in inputs}
    graph = helper.make_graph(
        [
            helper.make_node(
                operator,
                ["" if name == "_" else name for name in read.split()],
                written.split(),
                name=written,
                **attributes,
            )
            for operator, read, written, attributes in nodes
        ],
        "g",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kinds[name]), shape)
            for name, shape in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def own_specs(model: onnx.ModelProto) -> Iterator[tuple[str, str]]:
    """(operator, description) of every kernel of ours, whether it shares a launch or not."""
    for node in model.graph.node:
        spec = next((a.s.decode() for a in node.attribute if a.name == "spec"), "")
        if node.domain == DOMAIN and node.op_type == "Joint":
            yield from ((member.operator, member.spec) for member in decode(Joint, spec).members)
        elif node.domain == DOMAIN:
            yield node.op_type, spec


def own_kernels(model: onnx.ModelProto) -> Counter[str]:
    """How many kernels of ours there are, by operator."""
    return Counter(operator for operator, _ in own_specs(model))


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
