"""Are all operators of a model known? Asked before any compile time is spent."""

from collections.abc import Iterator

import onnx

from compile.graph import node_label
from compile.importer import all_nodes
from compile.ops import build_op_table
from compile.ops.registry import select
from compile.values import attributes_of
from modeld.errors import ModeldError

_QUANTISING = frozenset({"QuantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"})


def check_operators(model: onnx.ModelProto) -> None:
    """Raise ModeldError naming every node whose operator or attribute is not supported."""
    problems = list(_problems(model))
    if problems:
        raise ModeldError(f"{len(problems)} unsupported nodes: {'; '.join(problems)}")


def _problems(model: onnx.ModelProto) -> Iterator[str]:
    table = build_op_table()
    opsets = {o.domain: o.version for o in model.opset_import}
    local = {(f.domain, f.name) for f in model.functions}
    for node in all_nodes(model.graph):
        if (node.domain, node.op_type) in local:
            continue
        version = opsets.get(node.domain, 1)
        operator = f"{node.domain or 'ai.onnx'} {node.op_type} (opset {version})"
        op = select(table, node.domain, node.op_type, version)
        if op is None:
            yield f"{node_label(node)}: {operator} is not supported"
            continue
        attributes = attributes_of(node, None) if node.attribute else {}
        if unknown := op.unknown_attributes(attributes):
            yield f"{node_label(node)}: {operator} is not supported with {', '.join(unknown)}"


def is_quantised(model: onnx.ModelProto) -> bool:
    """True where the model rounds to integers on the way, so that ties can fall either way."""
    return any(
        node.op_type in _QUANTISING or node.op_type.startswith("QLinear")
        for node in all_nodes(model.graph)
    )
