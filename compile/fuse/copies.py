"""Recurrent queues after a turn: outputs that are what a queue keeps and what is new."""

import math

import onnx

from compile.fuse.graph import Graph
from compile.fuse.items import DOMAIN
from compile.graph import node_label
from compile.kernels.copy import Copies, Joined, Piece
from compile.kernels.spec import encode

Nodes = list[onnx.NodeProto]

# Operators that show the same elements in another shape.
_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")


def combine_copies(graph: Graph) -> None:
    """Replace every such output's join."""
    for node in list(graph.nodes):
        new = _copy(graph, node) if node.op_type == "Concat" and not node.domain else None
        if new is not None:
            graph.replace([node], [new])


def _copy(graph: Graph, node: onnx.NodeProto) -> onnx.NodeProto | None:
    name = node.output[0]
    shape, axis = graph.shape(name), graph.attribute(node, "axis")
    if name not in graph.outputs or not shape or 0 in shape or math.prod(shape[:axis]) != 1:
        return None
    found = [_range(graph, one) for one in node.input]
    ranges = [one for one in found if one is not None]
    if len(ranges) != len(found) or not any(_is_kept(graph, *one) for one in ranges):
        return None
    inputs = list(dict.fromkeys(source for source, *_ in ranges))
    pieces = tuple(Piece(inputs.index(source), start, count) for source, start, count, _ in ranges)
    between = [n for *_, nodes in ranges for n in nodes]
    return onnx.helper.make_node(
        "Copy",
        inputs,
        [name],
        name="\n".join(dict.fromkeys(node_label(n) for n in [*between, node])),
        domain=DOMAIN,
        spec=encode(Copies(len(inputs), (Joined(shape, pieces),))),
    )


def _is_kept(graph: Graph, source: str, first: int, count: int, nodes: Nodes) -> bool:
    """Whether a range is what a queue among the graph's inputs keeps."""
    whole = math.prod(graph.shape(source) or ())
    given = graph.maker(source) is None and source not in graph.constants
    return given and (first, count) != (0, whole)


def _range(graph: Graph, name: str) -> tuple[str, int, int, Nodes] | None:
    """Tensor, first element and number of those neighbouring elements that `name` shows, and the
    nodes between; None when its shape is not known."""
    shape = graph.shape(name)
    if shape is None or 0 in shape:
        return None
    first, nodes = 0, Nodes()
    while (node := graph.maker(name)) is not None and not node.domain:
        start = 0 if node.op_type in _VIEWS else _start(graph, node)
        if start is None or graph.shape(node.input[0]) is None:
            break
        first += start
        nodes.insert(0, node)
        name = node.input[0]
    return name, first, math.prod(shape), nodes


def _start(graph: Graph, node: onnx.NodeProto) -> int | None:
    """The first element of a Slice that shows neighbours; None for all other nodes."""
    shape, operands = graph.shape(node.input[0]), [graph.constants.get(n) for n in node.input[1:]]
    if node.op_type != "Slice" or shape is None or len(operands) < 3 or operands[2] is None:
        return None
    if any(operand is None or operand.size != 1 for operand in operands):
        return None
    start, _, axis, *step = (int(o.reshape(())) for o in operands if o is not None)
    axis %= len(shape)
    if step not in ([], [1]) or math.prod(shape[:axis]) != 1:
        return None
    start = max(start + shape[axis], 0) if start < 0 else min(start, shape[axis])
    return start * math.prod(shape[axis + 1 :])
