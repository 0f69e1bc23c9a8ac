"""A model in float64: what it would give if nothing were rounded."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper

from compile.graph import all_nodes
from compile.verify import OnnxReference

Array = npt.NDArray[np.generic]


class DoubleReference:
    """Runs a model of float32 in float64, by the onnx package's evaluator; outputs are float64."""

    def __init__(self, model: onnx.ModelProto, base_dir: Path) -> None:
        """Raises CannotRunError."""
        self._run = OnnxReference(in_double(model, base_dir), base_dir)
        self.name = f"{self._run.name} in float64"

    def __call__(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """All outputs by name. Raises CannotRunError when the run fails."""
        return self._run({name: _widened(np.asarray(array)) for name, array in inputs.items()})


def in_double(model: onnx.ModelProto, base_dir: Path) -> onnx.ModelProto:
    """`model` with float64 where it has float32: weights, constants, casts, inputs and outputs."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    onnx.load_external_data_for_model(wide, str(base_dir))
    for tensor in wide.graph.initializer:
        _widen(tensor)
    for node in all_nodes(wide.graph):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _widen(attribute.t)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == 1:
                attribute.i = TensorProto.DOUBLE
    for value in (*wide.graph.input, *wide.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    del wide.graph.value_info[:]
    return wide


def _widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        array = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array
