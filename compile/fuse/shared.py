"""Kernels that do not depend on each other share a launch: the heads of a network, the gates of a
recurrent cell, the queues that a turn moves on."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set

import onnx

from compile.fuse.graph import Graph
from compile.fuse.items import DOMAIN
from compile.graph import node_label, node_reads
from compile.kernels.copy import Copies, Joined, Piece
from compile.kernels.gemv import Products
from compile.kernels.joint import JOINABLE, Joint, Member
from compile.kernels.spec import decode, encode

# Kernel arguments beyond this many break some OpenCL devices.
_MAX_ARGUMENTS = 60

# The operator of kernels of any kind that share a launch.
_JOINT = "Joint"

Nodes = Sequence[onnx.NodeProto]


def share_launches(graph: Graph) -> None:
    """Join the nodes of such kernels that are equally many nodes away from the graph's inputs."""
    levels: dict[tuple[str, int], list[onnx.NodeProto]] = {}
    depths: dict[str, int] = {}
    for node in graph.in_order():
        depth = 1 + max((depths.get(name, 0) for name in node_reads(node)), default=0)
        depths |= dict.fromkeys(node.output, depth)
        if node.domain == DOMAIN:
            operator = _JOINT if node.op_type in JOINABLE else node.op_type
            levels.setdefault((operator, depth), []).append(node)
    stay = _elsewhere(nodes for (operator, _), nodes in levels.items() if operator == _JOINT)
    for (operator, _), nodes in levels.items():
        if operator not in _JOINS:
            continue
        for alike in _alike(nodes, stay):
            for group in _groups(alike):
                if len(group) > 1:
                    graph.replace(group, [_joined(graph, operator, group)])


def _kernel(node: onnx.NodeProto) -> bytes:
    """The node's attributes: equal ones are one kernel."""
    texts: list[bytes] = [attribute.SerializeToString() for attribute in node.attribute]
    return b"".join([node.op_type.encode(), *texts])


def _elsewhere(levels: Iterable[Nodes]) -> set[bytes]:
    """The kernels that stand in more than one level."""
    found = Counter(kernel for nodes in levels for kernel in {_kernel(node) for node in nodes})
    return {kernel for kernel, count in found.items() if count > 1}


def _alike(nodes: Nodes, stay: Set[bytes]) -> Iterator[list[onnx.NodeProto]]:
    """The nodes whose kernels may be in one launch: any, but those in `stay` with their equals
    only, or each launch would compile them anew."""
    sets: dict[bytes, list[onnx.NodeProto]] = {}
    for node in nodes:
        kernel = _kernel(node)
        sets.setdefault(kernel if kernel in stay else b"", []).append(node)
    yield from sets.values()


def _groups(nodes: Nodes) -> Iterator[list[onnx.NodeProto]]:
    """The nodes in runs whose kernels take few enough arguments."""
    group: list[onnx.NodeProto] = []
    count = 0
    for node in nodes:
        more = len(node.input) + len(node.output)
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


def _join_kernels(graph: Graph, nodes: Nodes) -> tuple[list[str], Joint]:
    inputs = list(dict.fromkeys(name for node in nodes for name in node.input))
    members = [
        Member(
            node.op_type,
            graph.attribute(node, "spec"),
            tuple(graph.attribute(node, "tile", ())),
            tuple(graph.attribute(node, "shape", ())),
            tuple(inputs.index(name) for name in node.input),
        )
        for node in nodes
    ]
    return inputs, Joint(tuple(members))


_JOINS = {"Dense": _join_products, "Copy": _join_copies, _JOINT: _join_kernels}
