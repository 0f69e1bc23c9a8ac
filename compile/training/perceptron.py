"""A network of fully connected layers with rectifiers between them, and its ONNX graph."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tinygrad import Tensor

from modeld.errors import ModeldError

# The newest of both that every runtime in use reads.
_OPSET, _IR_VERSION = 17, 8


class Perceptron:
    """Layers of the given sizes; `dropout` is the share of hidden values left out in training.

    Weights begin uniform within ±1/√inputs, drawn from tinygrad's random numbers.
    """

    def __init__(self, sizes: Sequence[int], dropout: float = 0.0) -> None:
        if len(sizes) < 2 or min(sizes) < 1:
            raise ModeldError(f"layers of sizes {list(sizes)} are no network; use two or more")
        if not 0 <= dropout < 1:
            raise ModeldError(f"a dropout of {dropout} is no share; use 0 up to 1")
        self.dropout = dropout
        self.parameters: dict[str, Tensor] = {}
        for number, (inputs, outputs) in enumerate(pairwise(sizes)):
            bound = inputs**-0.5
            self.parameters |= {
                f"layers.{number}.weight": Tensor.uniform(outputs, inputs, low=-bound, high=bound),
                f"layers.{number}.bias": Tensor.uniform(outputs, low=-bound, high=bound),
            }
        self._layers = len(sizes) - 1

    def __call__(self, x: Tensor) -> Tensor:
        """Scores (N, outputs) of inputs (N, inputs)."""
        for number in range(self._layers):
            if number:
                x = x.relu().dropout(self.dropout)
            weight = self.parameters[f"layers.{number}.weight"]
            x = x.linear(weight.transpose(), self.parameters[f"layers.{number}.bias"])
        return x


def perceptron_onnx(parameters: Mapping[str, np.ndarray[Any, Any]], name: str) -> onnx.ModelProto:
    """The graph of a perceptron with these parameters: `image` (1, inputs) to `scores`."""
    layers = len(parameters) // 2
    nodes, value = [], "image"
    for number in range(layers):
        result = "scores" if number == layers - 1 else f"hidden_{number}"
        inputs = [value, f"layers.{number}.weight", f"layers.{number}.bias"]
        nodes.append(helper.make_node("Gemm", inputs, [result], name=f"layer_{number}", transB=1))
        value = result
        if result != "scores":
            value = f"active_{number}"
            nodes.append(helper.make_node("Relu", [result], [value], name=f"rectifier_{number}"))
    first, last = parameters["layers.0.weight"], parameters[f"layers.{layers - 1}.weight"]
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, first.shape[1]])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, last.shape[0]])],
        [numpy_helper.from_array(array, label) for label, array in sorted(parameters.items())],
    )
    opsets = [helper.make_opsetid("", _OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
