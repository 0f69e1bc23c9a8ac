"""Dense layers that do not depend on each other share a launch: the heads of a network, the gates
of a recurrent cell."""

from collections.abc import Iterator, Sequence

import onnx

from compile.fuse.graph import Graph
from compile.fuse.items import DOMAIN
from compile.graph import node_label, node_reads
from compile.kernels.gemv import MAX_ARGUMENTS, Products
from compile.kernels.spec import decode, encode


def share_launches(graph: Graph) -> None:
    """Join the dense nodes that are equally many nodes away from the graph's inputs."""
    levels: dict[int, list[onnx.NodeProto]] = {}
    depths: dict[str, int] = {}
    for node in graph.in_order():
        depth = 1 + max((depths.get(name, 0) for name in node_reads(node)), default=0)
        depths |= dict.fromkeys(node.output, depth)
        if node.domain == DOMAIN and node.op_type == "Dense":
            levels.setdefault(depth, []).append(node)
    for nodes in levels.values():
        for group in _groups(graph, nodes):
            if len(group) > 1:
                graph.replace(group, [_joined(graph, group)])


def _products(graph: Graph, node: onnx.NodeProto) -> Products:
    return decode(Products, graph.attribute(node, "spec"))


def _groups(graph: Graph, nodes: Sequence[onnx.NodeProto]) -> Iterator[list[onnx.NodeProto]]:
    """The nodes in runs whose kernels take few enough arguments."""
    group: list[onnx.NodeProto] = []
    count = 0
    for node in nodes:
        more = sum(product.argument_count for product in _products(graph, node).items)
        if group and count + more > MAX_ARGUMENTS:
            yield group
            group, count = [], 0
        group.append(node)
        count += more
    yield group


def _joined(graph: Graph, nodes: Sequence[onnx.NodeProto]) -> onnx.NodeProto:
    parts = [_products(graph, node) for node in nodes]
    joined = Products(
        tuple(product for part in parts for product in part.items),
        tuple(shape for part in parts for shape in part.shapes),
    )
    return onnx.helper.make_node(
        "Dense",
        [name for node in nodes for name in node.input],
        [name for node in nodes for name in node.output],
        name="\n".join(node_label(node) for node in nodes),
        domain=DOMAIN,
        spec=encode(joined),
    )
