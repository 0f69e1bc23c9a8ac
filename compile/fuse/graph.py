"""An ONNX graph that passes can look through and change: who makes a value, who reads it, what is
known of it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner

from compile.folding import fold
from compile.graph import node_label, node_reads
from compile.kernels.layout import Array
from compile.values import array_of

# Weights stay out of folding when a node would blow them up beyond this (Expand, Tile, …).
_MAX_FOLDED_BYTES = 64 << 20
# Constants that can decide a shape are smaller.
_MAX_SHAPE_BYTES = 4096


class Graph:
    """The top-level graph of a model whose shapes are numbers; nodes are in execution order."""

    def __init__(self, model: onnx.ModelProto, base_dir: Path | None = None) -> None:
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        self._model = onnx.ModelProto()
        self._model.CopyFrom(model)
        model = self._model
        self._opsets = {o.domain: o.version for o in model.opset_import}
        self.nodes = list(model.graph.node)
        self.constants = {t.name: array_of(t, base_dir) for t in model.graph.initializer}
        self.outputs = [o.name for o in model.graph.output]
        # Nodes that some kernel computes already, by id.
        self.taken: set[int] = set()
        self._types: dict[str, tuple[int, tuple[int, ...] | None]] = {}
        self._readers: dict[str, list[onnx.NodeProto]] | None = None
        self._makers: dict[str, onnx.NodeProto] | None = None
        self._fold()
        self._infer()
        # Sizes of values are known now, and what is computed from them.
        self._fold()
        self._infer()

    def opset(self) -> int:
        """The version of ONNX's own operators."""
        return int(self._opsets.get("", self._opsets.get("ai.onnx", 1)))

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The static shape of a value; None when it has none."""
        if name in self.constants:
            return tuple(self.constants[name].shape)
        return self._types.get(name, (0, None))[1]

    def is_float(self, name: str) -> bool:
        """Whether the value is float32."""
        if name in self.constants:
            return bool(self.constants[name].dtype == np.float32)
        return bool(self._types.get(name, (0, None))[0] == onnx.TensorProto.FLOAT)

    def is_bytes(self, name: str) -> bool:
        """Whether the value is uint8 and not known."""
        return bool(self._types.get(name, (0, None))[0] == onnx.TensorProto.UINT8)

    def maker(self, name: str) -> onnx.NodeProto | None:
        """The node that computes a value."""
        if self._makers is None:
            self._makers = {o: node for node in self.nodes for o in node.output if o}
        return self._makers.get(name)

    def readers(self, name: str) -> list[onnx.NodeProto]:
        """The nodes that read a value, one entry per use."""
        if self._readers is None:
            self._readers = {}
            for node in self.nodes:
                for read in node_reads(node):
                    self._readers.setdefault(read, []).append(node)
        return self._readers.get(name, [])

    def sole_reader(self, name: str) -> onnx.NodeProto | None:
        """The one node that reads a value once, if it is still free and the value no output."""
        readers = self.readers(name)
        alone = len(readers) == 1 and name not in self.outputs
        return readers[0] if alone and id(readers[0]) not in self.taken else None

    def attribute(self, node: onnx.NodeProto, name: str, default: Any = None) -> Any:
        """An attribute's value; text as str."""
        for attribute in node.attribute:
            if attribute.name == name:
                value = onnx.helper.get_attribute_value(attribute)
                return value.decode() if isinstance(value, bytes) else value
        return default

    def replace(self, old: Iterable[onnx.NodeProto], new: Iterable[onnx.NodeProto]) -> None:
        """Put `new` nodes in the place of the last of `old`."""
        gone = [id(node) for node in old]
        last = max(i for i, node in enumerate(self.nodes) if id(node) in gone)
        kept_before = [n for n in self.nodes[: last + 1] if id(n) not in gone]
        self.nodes = [*kept_before, *new, *self.nodes[last + 1 :]]
        self._readers = self._makers = None

    def prune(self) -> None:
        """Drop the nodes that no output needs."""
        needed, kept = set(self.outputs), set()
        for node in reversed(self.in_order()):
            if not needed.isdisjoint(node.output):
                needed |= set(node_reads(node))
                kept.add(id(node))
        self.nodes = [node for node in self.nodes if id(node) in kept]
        self._readers = self._makers = None

    def in_order(self) -> list[onnx.NodeProto]:
        """The nodes, each after those it reads from."""
        return _in_order(self.nodes)

    def declare(self, name: str, shape: tuple[int, ...]) -> str:
        """Make a float32 value known; returns its name."""
        self._types[name] = (onnx.TensorProto.FLOAT, shape)
        return name

    def add_constant(self, name: str, values: Array) -> str:
        """A new constant under a name that is not taken; returns the name."""
        unique, number = name, 1
        while unique in self.constants or unique in self._types:
            number += 1
            unique = f"{name}#{number}"
        self.constants[unique] = values
        return unique

    def to_model(self, domains: Iterable[str]) -> onnx.ModelProto:
        """The model as it now is, with opset entries for the private `domains`."""
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        del model.graph.node[:], model.graph.initializer[:], model.graph.value_info[:]
        # Before IR version 4 initializers were inputs too.
        inputs = [i for i in model.graph.input if i.name not in self.constants]
        del model.graph.input[:]
        model.graph.input.extend(inputs)
        model.graph.node.extend(self.in_order())
        used = {read for node in self.nodes for read in node_reads(node)} | set(self.outputs)
        model.graph.initializer.extend(
            onnx.numpy_helper.from_array(np.asarray(array, order="C"), name)
            for name, array in self.constants.items()
            if name in used
        )
        made = {o for node in self.nodes for o in node.output if o} - set(self.outputs)
        model.graph.value_info.extend(
            onnx.helper.make_tensor_value_info(name, kind, shape)
            for name, (kind, shape) in self._types.items()
            if name in made and kind
        )
        model.opset_import.extend(onnx.helper.make_opsetid(domain, 1) for domain in domains)
        return model

    def _fold(self) -> None:
        """Nodes whose inputs are all constants become constants; what only hands on goes away."""
        renamed: dict[str, str] = {}
        kept = []
        inside = {r for n in self.nodes for r in node_reads(n)} - {
            r for n in self.nodes for r in n.input
        }
        for node in self.nodes:
            for i, name in enumerate(node.input):
                node.input[i] = renamed.get(name, name)
            if self._hands_on(node) and node.output[0] not in inside:
                renamed[node.output[0]] = node.input[0]
            elif not self._fold_node(node):
                kept.append(node)
        self.nodes = kept

    def _hands_on(self, node: onnx.NodeProto) -> bool:
        if node.op_type == "Cast" and self.is_float(node.input[0]):
            same = self.attribute(node, "to") == onnx.TensorProto.FLOAT
        else:
            same = node.op_type == "Identity"
        return same and node.output[0] not in self.outputs

    def _fold_node(self, node: onnx.NodeProto) -> bool:
        shape = self.shape(node.input[0]) if node.op_type == "Shape" else None
        if shape is not None and node.output[0] not in self.outputs:
            ends = self.attribute(node, "start", 0), self.attribute(node, "end", len(shape))
            self.constants[node.output[0]] = np.array(shape[ends[0] : ends[1]], np.int64)
            return True
        known = all(not name or name in self.constants for name in node.input)
        if not known or any(a.type == a.GRAPH for a in node.attribute):
            return False
        if node.op_type.startswith("Random") or any(o in self.outputs for o in node.output):
            return False
        values = fold(node, [self.constants.get(name) for name in node.input], self._opsets)
        if values is None or sum(value.nbytes for value in values) > _MAX_FOLDED_BYTES:
            return False
        self.constants |= {n: v for n, v in zip(node.output, values, strict=True) if n}
        return True

    def _infer(self) -> None:
        """Types and shapes of all values. What onnx cannot infer stays unknown."""
        model = self._without_weights()
        try:
            inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        except (onnx.shape_inference.InferenceError, RuntimeError):
            inferred = model.graph
        for value in [*inferred.input, *inferred.value_info, *inferred.output]:
            if value.type.HasField("tensor_type"):
                tensor = value.type.tensor_type
                dims = tensor.shape.dim
                known = tensor.HasField("shape") and all(d.HasField("dim_value") for d in dims)
                shape = tuple(d.dim_value for d in dims) if known else None
                self._types[value.name] = (tensor.elem_type, shape)

    def _without_weights(self) -> onnx.ModelProto:
        """The model with types in the place of large constants: quick to infer, of any size."""
        large = {n: a for n, a in self.constants.items() if a.nbytes > _MAX_SHAPE_BYTES}
        all_constants = self.constants
        self.constants = {n: a for n, a in all_constants.items() if n not in large}
        model = self.to_model(())
        self.constants = all_constants
        del model.graph.input[:]
        model.graph.input.extend(i for i in self._model.graph.input if i.name not in all_constants)
        model.graph.input.extend(
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in large.items()
        )
        return model


def _in_order(nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Nodes after the nodes they read from, else in the given order."""
    made = {o for node in nodes for o in node.output if o}
    done: set[str] = set()
    result, waiting = [], list(nodes)
    while waiting:
        later = []
        for node in waiting:
            if any(read in made and read not in done for read in node_reads(node)):
                later.append(node)
            else:
                result.append(node)
                done |= set(node.output)
        if len(later) == len(waiting):
            raise ValueError(f"the graph has a cycle through {node_label(later[0])}")
        waiting = later
    return result
