"""Kernels that do not depend on each other share a launch: the heads of a network, the gates of a
recurrent cell, the queues that a turn moves on."""

from collections.abc import Iterator, Sequence

import onnx

from compile.fuse.graph import Graph
from compile.fuse.items import DOMAIN
from compile.graph import node_label, node_reads
from compile.kernels.copy import Copies, Joined, Piece
from compile.kernels.gemv import Products
from compile.kernels.spec import decode, encode

# Kernel arguments beyond this many break some OpenCL devices.
_MAX_ARGUMENTS = 60

Nodes = Sequence[onnx.NodeProto]


def share_launches(graph: Graph) -> None:
    """Join the nodes of such kernels that are equally many nodes away from the graph's inputs."""
    levels: dict[tuple[str, int], list[onnx.NodeProto]] = {}
    depths: dict[str, int] = {}
    for node in graph.in_order():
        depth = 1 + max((depths.get(name, 0) for name in node_reads(node)), default=0)
        depths |= dict.fromkeys(node.output, depth)
        if node.domain == DOMAIN and node.op_type in _JOINS:
            levels.setdefault((node.op_type, depth), []).append(node)
    for (operator, _), nodes in levels.items():
        for group in _groups(graph, nodes):
            if len(group) > 1:
                graph.replace(group, [_joined(graph, operator, group)])


def _spec(graph: Graph, node: onnx.NodeProto) -> Products | Copies:
    text = graph.attribute(node, "spec")
    return decode(Products, text) if node.op_type == "Dense" else decode(Copies, text)


def _groups(graph: Graph, nodes: Nodes) -> Iterator[list[onnx.NodeProto]]:
    """The nodes in runs whose kernels take few enough arguments."""
    group: list[onnx.NodeProto] = []
    count = 0
    for node in nodes:
        more = _spec(graph, node).argument_count
        if group and count + more > _MAX_ARGUMENTS:
            yield group
            group, count = [], 0
        group.append(node)
        count += more
    yield group


def _joined(graph: Graph, operator: str, nodes: Nodes) -> onnx.NodeProto:
    inputs, spec = _JOINS[operator](graph, nodes)
    labels = [label for node in nodes for label in node_label(node).split("\n")]
    return onnx.helper.make_node(
        operator,
        inputs,
        [name for node in nodes for name in node.output],
        name="\n".join(dict.fromkeys(labels)),
        domain=DOMAIN,
        spec=encode(spec),
    )


def _join_products(graph: Graph, nodes: Nodes) -> tuple[list[str], Products]:
    parts = [decode(Products, graph.attribute(node, "spec")) for node in nodes]
    items = tuple(product for part in parts for product in part.items)
    shapes = tuple(shape for part in parts for shape in part.shapes)
    return [name for node in nodes for name in node.input], Products(items, shapes)


def _join_copies(graph: Graph, nodes: Nodes) -> tuple[list[str], Copies]:
    """What several copies read is one parameter."""
    inputs = list(dict.fromkeys(name for node in nodes for name in node.input))
    items: list[Joined] = []
    for node in nodes:
        places = [inputs.index(name) for name in node.input]
        for item in decode(Copies, graph.attribute(node, "spec")).items:
            moved = (Piece(places[p.source], p.start, p.count) for p in item.pieces)
            items.append(Joined(item.shape, tuple(moved)))
    return inputs, Copies(len(inputs), tuple(items))


_JOINS = {"Dense": _join_products, "Copy": _join_copies}
