"""Is every operator of a model known? Asked before any compile time is spent.

All findings at once, grouped by operator and reason, so that a model is repaired in one go.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import onnx

from compile.graph import all_nodes, deciding_inputs, node_label
from compile.ops import build_op_table
from compile.ops.registry import MICROSOFT_DOMAIN, ONNX_DOMAIN, Op, OpTable, select
from compile.values import DTYPES
from modeld.errors import ModeldError

# Operators whose result changes from run to run; a compiled model gives the same for the same.
_RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
_TRAINING = frozenset({"ai.onnx.training", "ai.onnx.preview.training"})
_KNOWN_DOMAINS = frozenset({ONNX_DOMAIN, "ai.onnx", "ai.onnx.ml", MICROSOFT_DOMAIN})


@dataclass(frozen=True)
class Operator:
    """Nodes of one operator that share a verdict; `reason` is empty where it is supported."""

    domain: str
    name: str
    opset: int
    nodes: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        """One line: what, how often, why not, and where."""
        title = f"{self.domain or 'ai.onnx'} {self.name} (opset {self.opset}), {len(self.nodes)}×"
        return f"{title}: {self.reason} [{', '.join(self.nodes)}]" if self.reason else title


@dataclass(frozen=True)
class Coverage:
    """What a model asks for.

    `shape_inputs` lists graph inputs that decide shapes, and must be frozen, with the nodes that
    read them; `types` the element types that no artifact can hold, by tensor.
    """

    operators: tuple[Operator, ...]
    shape_inputs: Mapping[str, tuple[str, ...]]
    types: Mapping[str, str]

    @property
    def unsupported(self) -> tuple[Operator, ...]:
        """The operators that stop a build."""
        return tuple(operator for operator in self.operators if operator.reason)

    @property
    def complete(self) -> bool:
        """Whether nothing stops a build."""
        return not self.unsupported and not self.types


def coverage(model: onnx.ModelProto, table: OpTable | None = None) -> Coverage:
    """Look at every node of a model, those of subgraphs and local functions included."""
    table = build_op_table() if table is None else table
    opsets = {o.domain: o.version for o in model.opset_import}
    local = {(f.domain, f.name) for f in model.functions}
    groups: dict[tuple[str, str, int, str], list[str]] = defaultdict(list)
    shape_inputs: dict[str, list[str]] = defaultdict(list)
    for node in _nodes(model):
        if (node.domain, node.op_type) in local:
            continue
        opset = opsets.get(node.domain, 1)
        op = select(table, node.domain, node.op_type, opset)
        reason = unsupported_reason(node, op, [attribute.name for attribute in node.attribute])
        groups[node.domain, node.op_type, opset, reason].append(node_label(node))
        for position in op.constants if op is not None else ():
            if position < len(node.input) and node.input[position]:
                for name in deciding_inputs(model.graph, node.input[position]):
                    shape_inputs[name].append(node_label(node))
    operators = (Operator(d, n, o, tuple(v), r) for (d, n, o, r), v in sorted(groups.items()))
    return Coverage(
        tuple(operators),
        {name: tuple(nodes) for name, nodes in sorted(shape_inputs.items())},
        dict(_unknown_types(model.graph)),
    )


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    yield from all_nodes(model.graph)
    for function in model.functions:
        yield from function.node


def unsupported_reason(node: onnx.NodeProto, op: Op | None, attributes: Iterable[str]) -> str:
    """Why a node with these attributes cannot be compiled by `op`; empty when it can."""
    if node.domain in _TRAINING:
        return "training runs offline, by compile.training; export the model for inference"
    if node.op_type in _RANDOM:
        return "random values at inference; export the model without"
    if op is None and node.domain not in _KNOWN_DOMAINS:
        return "custom domain; replace it by ONNX operators or a local function"
    if op is None:
        return "operator not supported"
    unknown = op.unknown_attributes(attributes)
    return f"not supported with {', '.join(unknown)}; export it without" if unknown else ""


def check_coverage(model: onnx.ModelProto) -> None:
    """Raise ModeldError naming every node, or element type, that stops a build."""
    found = coverage(model)
    problems = [str(operator) for operator in found.unsupported]
    problems += [f"{name} has element type {kind}" for name, kind in found.types.items()]
    if problems:
        count = sum(len(operator.nodes) for operator in found.unsupported)
        nodes = "node" if count == 1 else "nodes"
        what = f"{count} unsupported {nodes}" if count else "unsupported element types"
        raise ModeldError(f"{what}: {'; '.join(problems)}")


def _unknown_types(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    """Inputs, outputs and initializers whose element type the artifact cannot hold."""
    kinds = [
        (value.name, value.type.tensor_type.elem_type)
        for value in (*graph.input, *graph.output)
        if value.type.HasField("tensor_type")
    ]
    kinds += [(tensor.name, tensor.data_type) for tensor in graph.initializer]
    for name, kind in kinds:
        if kind not in DTYPES:
            known = kind in onnx.TensorProto.DataType.values()
            yield name, onnx.TensorProto.DataType.Name(kind) if known else str(kind)
