"""Writes ONNX nodes for any opset, and puts a file's graph among them under names of its own."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from modeld.manifest import Tensor

# Since when these operators take as inputs what were attributes before.
_SLICE_INPUTS = 10
_REDUCE_INPUTS = 18


class Builder:
    """Collects the parts of a graph; every method returns the name of the value that it made.

    A value's name is also its node's, after `wrap/`. `opset` is that of the ONNX operators.
    """

    def __init__(self, opset: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.sparse_constants: list[onnx.SparseTensorProto] = []
        self.values: list[onnx.ValueInfoProto] = []
        self._opset = opset

    def input(self, tensor: Tensor) -> str:
        """A graph input."""
        self.inputs.append(_value(tensor))
        return tensor.name

    def output(self, tensor: Tensor) -> str:
        """Declare a value, made by then or later, as a graph output."""
        self.outputs.append(_value(tensor))
        return tensor.name

    def constant(self, name: str, value: npt.NDArray[np.generic]) -> str:
        """A constant array."""
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def node(self, operator: str, name: str, inputs: Sequence[str], **attributes: int) -> str:
        """A node with one output."""
        self.nodes.append(
            helper.make_node(operator, list(inputs), [name], name=f"wrap/{name}", **attributes)
        )
        return name

    def rows(
        self, name: str, source: str, start: int, stop: int, step: int = 1, axis: int = 0
    ) -> str:
        """`source[start:stop:step]` along `axis`."""
        if self._opset < _SLICE_INPUTS:
            indices = self.constant(f"{name}.rows", np.arange(start, stop, step))
            return self.node("Gather", name, [source, indices], axis=axis)
        bounds = (("start", start), ("stop", stop), ("axis", axis), ("step", step))
        made = [self.constant(f"{name}.{part}", np.array([value])) for part, value in bounds]
        return self.node("Slice", name, [source, *made])

    def join(self, name: str, sources: Sequence[str], axis: int = 0) -> str:
        """Concatenate."""
        return self.node("Concat", name, sources, axis=axis)

    def reshape(self, name: str, source: str, shape: Iterable[int]) -> str:
        """The same elements in another shape."""
        made = self.constant(f"{name}.shape", np.array(list(shape), np.int64))
        return self.node("Reshape", name, [source, made])

    def greatest(self, name: str, source: str, axis: int) -> str:
        """The maximum along `axis`, which goes away."""
        if self._opset >= _REDUCE_INPUTS:
            axes = self.constant(f"{name}.axes", np.array([axis]))
            return self.node("ReduceMax", name, [source, axes], keepdims=0)
        node = helper.make_node(
            "ReduceMax", [source], [name], name=f"wrap/{name}", axes=[axis], keepdims=0
        )
        self.nodes.append(node)
        return name

    def cast(self, name: str, source: str, dtype: str) -> str:
        """The same values as elements of numpy type `dtype`."""
        return self.node(
            "Cast", name, [source], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        )

    def graph_of(
        self, model: onnx.ModelProto, names: Mapping[str, str], prefix: str, nodes: str
    ) -> None:
        """Add the graph of a file. Values get the name in `names`, or `prefix` before their own;
        `nodes` comes before the names of nodes, which must differ in all the graph."""

        def renamed(name: str) -> str:
            return names.get(name, f"{prefix}{name}") if name else ""

        graph = onnx.GraphProto()
        graph.CopyFrom(model.graph)
        rename(graph, renamed, nodes)
        self.nodes += graph.node
        self.constants += graph.initializer
        self.sparse_constants += graph.sparse_initializer
        self.values += graph.value_info

    def graph(self, name: str) -> onnx.GraphProto:
        """Everything collected, as a graph."""
        return helper.make_graph(
            self.nodes,
            name,
            self.inputs,
            self.outputs,
            self.constants,
            value_info=self.values,
            sparse_initializer=self.sparse_constants,
        )


def rename(graph: onnx.GraphProto, renamed: Callable[[str], str], nodes: str) -> None:
    """Give other names to all values and nodes in a graph and the graphs inside it, in place."""
    for node in graph.node:
        node.name = node.name and nodes + node.name
        node.input[:] = [renamed(name) for name in node.input]
        node.output[:] = [renamed(name) for name in node.output]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                rename(attribute.g, renamed, nodes)
            for inner in attribute.graphs:
                rename(inner, renamed, nodes)
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = renamed(value.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = renamed(sparse.values.name)


def _value(tensor: Tensor) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, _element(tensor.dtype), tensor.shape)


def _element(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
