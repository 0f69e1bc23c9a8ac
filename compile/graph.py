"""Questions about an ONNX graph: types of its values, names of its nodes, what decides shapes."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from tinygrad import Tensor

from compile.values import DTYPES, dtype_of, numpy_dtype
from modeld.errors import ModeldError

# A serialized protobuf cannot be larger; shape inference passes one.
_MAX_PROTOBUF_BYTES = (1 << 31) - 1


def node_label(node: onnx.NodeProto) -> str:
    """The node's name; one without a name is called after its operator and first output."""
    return node.name or f"{node.op_type}:{next((o for o in node.output if o), '')}"


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Graph attributes of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Nodes of a graph and of all graphs inside it."""
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from all_nodes(inner)


def node_reads(node: onnx.NodeProto) -> Iterator[str]:
    """Names a node reads, those its subgraphs take from outside included."""
    yield from (name for name in node.input if name)
    for graph in subgraphs(node):
        own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
        own |= {name for inner in graph.node for name in inner.output}
        reads = {name for inner in graph.node for name in node_reads(inner)}
        yield from sorted((reads | {o.name for o in graph.output}) - own)


# Their results depend on the shape of the input, not on its values.
_SHAPE_ONLY = frozenset({"Shape", "Size", "EyeLike", "OptionalHasElement"})


def _sources(graph: onnx.GraphProto) -> dict[str, tuple[str, ...]]:
    """For each computed value the values it is computed from, in subgraphs too."""
    found: dict[str, tuple[str, ...]] = {}
    for node in graph.node:
        reads = () if node.op_type in _SHAPE_ONLY else tuple(node_reads(node))
        found |= dict.fromkeys(node.output, reads)
        for inner in subgraphs(node):
            found |= _sources(inner) | _body_inputs(node, inner)
    return found


def _body_inputs(node: onnx.NodeProto, body: onnx.GraphProto) -> dict[str, tuple[str, ...]]:
    """Where the inputs of a loop's body come from: the node's, and the turn before."""
    # A Loop's turn number has no output of its own; a Scan starts with its states.
    skipped = 1 if node.op_type == "Loop" else 0
    found = {}
    for position, value in enumerate(body.input):
        before = position - skipped
        carried = [body.output[before].name] if 0 <= before < len(body.output) else []
        given = [node.input[position]] if position < len(node.input) else []
        found[value.name] = tuple(name for name in (*given, *carried) if name)
    return found


def deciding_inputs(graph: onnx.GraphProto, name: str) -> list[str]:
    """Graph inputs whose values reach `name`, sorted."""
    sources = _sources(graph)
    inputs = {i.name for i in graph.input} - {t.name for t in graph.initializer}
    seen: set[str] = set()
    pending = [name]
    while pending:
        current = pending.pop()
        if current not in seen:
            seen.add(current)
            pending.extend(sources.get(current, ()))
    return sorted(seen & inputs)


class NeedsConstantError(ModeldError):
    """A value that decides shapes depends on graph inputs: `inputs` must be frozen."""

    def __init__(self, inputs: Sequence[str], message: str) -> None:
        super().__init__(message)
        self.inputs = tuple(inputs)


class ValueTypes:
    """Element types and static shapes of a graph's values, as declared or inferred."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._types: dict[str, onnx.TypeProto.Tensor] = {}
        inferred = model
        if model.ByteSize() < _MAX_PROTOBUF_BYTES:
            try:
                inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
            except (onnx.shape_inference.InferenceError, RuntimeError):
                # What onnx cannot infer is found when the graph is built.
                inferred = model
        self._collect(inferred.graph)
        # What the model itself declares for its outputs goes before what was inferred.
        self._collect_values(model.graph.output)

    def _collect(self, graph: onnx.GraphProto) -> None:
        self._collect_values([*graph.value_info, *graph.output])

    def _collect_values(self, values: Any) -> None:
        for value in values:
            if value.type.HasField("tensor_type"):
                self._types[value.name] = value.type.tensor_type

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The static shape of a value; None when unknown or symbolic."""
        known = self._types.get(name)
        if known is None or not known.HasField("shape"):
            return None
        dims = known.shape.dim
        if not all(d.HasField("dim_value") for d in dims):
            return None
        return tuple(d.dim_value for d in dims)

    def coerce(self, name: str, value: Any) -> Any:
        """`value` with the element type ONNX gives it; tinygrad's promotion rules differ."""
        known = self._types.get(name)
        if known is None or known.elem_type not in DTYPES:
            return value
        dtype = dtype_of(known.elem_type)
        if isinstance(value, Tensor) and value.dtype != dtype:
            return value.cast(dtype)
        if isinstance(value, np.ndarray) and value.dtype != numpy_dtype(dtype):
            return value.astype(numpy_dtype(dtype))
        return value
