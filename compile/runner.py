"""Runs an ONNX graph on tinygrad tensors with our operators: values known at build time in numpy,
all others lazily on the device, nothing through a C compiler.

Calling the runner builds the tinygrad graph; the caller realizes the outputs (inside a JIT to
capture the kernels). Every call after the first creates no new constants.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from tinygrad import Device, Tensor, dtypes
from tinygrad.helpers import Metadata
from tinygrad.tensor import _METADATA

import compile.device  # noqa: F401 (kernels are rendered as it says)
from compile.coverage import coverage, unsupported_reason
from compile.folding import fold
from compile.graph import NeedsConstantError, ValueTypes, deciding_inputs, node_label
from compile.ops import build_op_table
from compile.ops.registry import (
    Array,
    Context,
    Op,
    OpTable,
    UnknownValueError,
    UnsupportedNodeError,
    Value,
    select,
)
from compile.values import (
    DeviceConstants,
    HalfPlan,
    array_of,
    attributes_of,
    frozen_arrays,
    sparse_array_of,
)
from modeld.errors import ModeldError

Environment = MutableMapping[str, Value]

# What tinygrad and numpy raise on shapes, types and attributes they cannot take.
_OPERATOR_ERRORS = (
    AssertionError,
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class _Node:
    """A node with its attributes read and its operator chosen."""

    proto: onnx.NodeProto
    label: str
    attributes: dict[str, Any]
    op: Op
    has_subgraph: bool


class GraphRunner:
    """A model ready to be called with tensors.

    `inputs` names the graph inputs that are neither initializers nor frozen; `outputs` the graph
    outputs, in order. `constants` holds what lives on the device between runs. Nodes are
    selected and checked on construction: UnsupportedNodeError, NeedsConstantError or ModeldError.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        *,
        base_dir: Path | None = None,
        frozen: Mapping[str, Any] | None = None,
        table: OpTable | None = None,
        half: HalfPlan | None = None,
    ) -> None:
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        self._base_dir = base_dir
        self._table = build_op_table() if table is None else table
        self._opsets = {o.domain: o.version for o in model.opset_import}
        self._types = ValueTypes(model)
        self._model = model
        self._graph = model.graph
        self._rounded = half.stored if half else frozenset()
        self.constants = DeviceConstants(None if half is None else half.kept)
        self._nodes: dict[int, list[_Node]] = {}
        self._initializers: dict[int, dict[str, Array]] = {}
        self._folded: dict[tuple[str, str], list[Array] | None] = {}
        frozen_values = frozen_arrays(frozen or {})
        known = frozen_values.keys() | {t.name for t in self._graph.initializer}
        known |= {t.values.name for t in self._graph.sparse_initializer}
        self._frozen = frozen_values
        self.inputs = tuple(i.name for i in self._graph.input if i.name not in known)
        self.outputs = tuple(o.name for o in self._graph.output)
        self._prepare(self._graph)

    def __call__(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Graph outputs by name, lazy, for `inputs` by name."""
        missing = [name for name in self.inputs if name not in inputs]
        if missing:
            raise ModeldError(f"no value for the inputs {', '.join(missing)}; give every input")
        environment: Environment = {name: inputs[name] for name in self.inputs}
        environment.update(self._frozen)
        self._run(self._graph, environment, "")
        return {
            name: self._output(name, self._value(environment, name, "outputs"))
            for name in self.outputs
        }

    @staticmethod
    def _value(environment: Environment, name: str, reader: str) -> Value:
        if name not in environment:
            raise ModeldError(
                f"{reader}: nothing computes {name}; it may be an output that its operator only "
                "has in training"
            )
        return environment[name]

    def _output(self, name: str, value: Value) -> Tensor:
        """An output as a tensor on the device, also where it depends on no input."""
        if isinstance(value, np.ndarray):
            return self.constants.stored(name, value)
        if not isinstance(value, Tensor):
            raise ModeldError(f"output {name} is a sequence or empty optional; only tensors can be")
        # A value of constants alone belongs to no device yet.
        return value if value.device is not None else value.clone(Device.DEFAULT)

    def _prepare(self, graph: onnx.GraphProto) -> list[_Node]:
        """Nodes of a graph or subgraph, kept by identity: a subgraph runs many times."""
        if id(graph) not in self._nodes:
            self._nodes[id(graph)] = [self._prepare_node(node) for node in graph.node]
            arrays = {t.name: array_of(t, self._base_dir) for t in graph.initializer}
            arrays |= {t.values.name: sparse_array_of(t) for t in graph.sparse_initializer}
            self._initializers[id(graph)] = arrays
        return self._nodes[id(graph)]

    def _prepare_node(self, proto: onnx.NodeProto) -> _Node:
        label = node_label(proto)
        opset = self._opsets.get(proto.domain, 1)
        op = select(self._table, proto.domain, proto.op_type, opset)
        attributes = attributes_of(proto, self._base_dir)
        reason = unsupported_reason(proto, op, attributes)
        if op is None or reason:
            domain = proto.domain or "ai.onnx"
            raise UnsupportedNodeError(
                f"node {label}: {domain} {proto.op_type} (opset {opset}): {reason}; "
                "`modeld-compile coverage` gives the whole list"
            )
        subgraphs = [v for v in attributes.values() if isinstance(v, onnx.GraphProto)]
        for subgraph in subgraphs:
            self._prepare(subgraph)
        return _Node(proto, label, attributes, op, bool(subgraphs))

    def _run(self, graph: onnx.GraphProto, environment: Environment, scope: str) -> None:
        for name, array in self._initializers[id(graph)].items():
            environment.setdefault(name, array)
        environment[""] = None
        for node in self._prepare(graph):
            with _attributed_to(node.label):
                results = self._run_node(node, environment, scope)
            for name, value in zip(node.proto.output, results, strict=False):
                if name:
                    environment[name] = self._stored(name, value)

    def _stored(self, name: str, value: Value) -> Value:
        """`value` as it comes back from memory, where it lies in float16."""
        if name not in self._rounded or not isinstance(value, Tensor):
            return value
        if value.dtype != dtypes.float32:
            return value
        return value.cast(dtypes.float16).contiguous().cast(dtypes.float32)

    def _run_node(self, node: _Node, environment: Environment, scope: str) -> Sequence[Value]:
        values = [self._value(environment, name, node.label) for name in node.proto.input]
        foldable = all(v is None or isinstance(v, np.ndarray) for v in values)
        if foldable and not node.has_subgraph and node.op.foldable:
            folded = self._fold(node, values, scope)
            if folded is not None:
                return folded
        try:
            results = self._apply(node, values, environment, scope)
        except UnknownValueError as error:
            raise self._needs_constant(node, error.position) from error
        except _OPERATOR_ERRORS as error:
            text = " ".join(str(error).split())
            raise ModeldError(
                f"node {node.label}: {node.proto.op_type} cannot be built: {text or repr(error)}"
            ) from error
        return [
            self._types.coerce(name, value)
            for name, value in zip(node.proto.output, results, strict=False)
        ]

    def _fold(self, node: _Node, values: Sequence[Any], scope: str) -> list[Array] | None:
        key = (scope, next(name for name in node.proto.output if name))
        if key not in self._folded:
            arrays = fold(node.proto, values, self._opsets)
            if arrays is not None:
                names = node.proto.output
                arrays = [self._types.coerce(n, a) for n, a in zip(names, arrays, strict=True)]
            self._folded[key] = arrays
        return self._folded[key]

    def _apply(
        self, node: _Node, values: Sequence[Value], environment: Environment, scope: str
    ) -> Sequence[Value]:
        arguments = [self._argument(node, position, value) for position, value in enumerate(values)]
        while arguments and arguments[-1] is None:
            arguments.pop()
        keywords = dict(node.attributes)
        if node.op.context:
            keywords["context"] = self._context(node, environment, scope)
        result = node.op.run(*arguments, **keywords)
        return result if isinstance(result, tuple) else (result,)

    def _argument(self, node: _Node, position: int, value: Value) -> Value:
        if position in node.op.constants:
            if isinstance(value, Tensor):
                raise self._needs_constant(node, position)
            return value
        return value if node.op.any_value else self._tensor(node.proto.input[position], value)

    def _needs_constant(self, node: _Node, position: int) -> NeedsConstantError:
        """The error that names what to freeze: for this node, and what else may need it."""
        name = node.proto.input[position]
        inputs = deciding_inputs(self._graph, name)
        others = coverage(self._model, self._table).shape_inputs
        more = sorted(others.keys() - self._frozen.keys() - set(inputs))
        options = " ".join(f"--const {i}=FILE.safetensors" for i in inputs)
        return NeedsConstantError(
            inputs,
            f"node {node.label}: input {position} ({name}) of {node.op.name} decides shapes and "
            f"depends on {', '.join(inputs) or 'computed values'}; freeze it: {options}"
            + (f" (further inputs that may have to be: {', '.join(more)})" if more else ""),
        )

    def _tensor(self, name: str, value: Value) -> Any:
        if isinstance(value, np.ndarray):
            return self.constants.tensor(name, value)
        if isinstance(value, list):
            return [self._tensor(name, item) for item in value]
        return value

    def _context(self, node: _Node, environment: Environment, scope: str) -> Context:
        def run_subgraph(graph: onnx.GraphProto, inputs: list[Value], label: str) -> list[Value]:
            inner: Environment = ChainMap({}, environment)
            inner.update({i.name: v for i, v in zip(graph.input, inputs, strict=True)})
            self._run(graph, inner, f"{scope}/{node.label}/{label}")
            return [self._value(inner, o.name, node.label) for o in graph.output]

        return Context(
            node.label,
            self._opsets.get(node.proto.domain, 1),
            tuple(bool(name) for name in node.proto.output),
            tuple(self._types.shape(name) for name in node.proto.output),
            lambda value: self._tensor(node.label, value),
            lambda array: self.constants.stored(node.label, array),
            run_subgraph,
        )


@contextmanager
def _attributed_to(label: str) -> Iterator[None]:
    """Mark what tinygrad builds meanwhile with the node's name; kernels carry it as metadata."""
    before = _METADATA.set(Metadata(name=label))
    try:
        yield
    finally:
        _METADATA.set(before)
