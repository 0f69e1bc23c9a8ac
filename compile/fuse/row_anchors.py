"""Softmax and layer normalisation over the last axes."""

import math

import onnx

from compile.fuse.anchors import flat_item
from compile.fuse.graph import Graph
from compile.fuse.items import Item, start_chain
from compile.fuse.steps import follow
from compile.kernels.layout import LANES
from compile.kernels.rows import Rows


def find_softmax(graph: Graph, node: onnx.NodeProto) -> Item | None:
    """Softmax; before opset 13 over all axes from `axis` on, since then over one."""
    chain = start_chain(graph, node)
    if chain is None or not chain.shape:
        return None
    rank = len(chain.shape)
    axis = graph.attribute(node, "axis", 1 if graph.opset() < 13 else -1) % rank
    if graph.opset() >= 13 and axis != rank - 1:
        return None
    rows = Rows("softmax", math.prod(chain.shape[:axis]), math.prod(chain.shape[axis:]))
    return _item(graph, node, rows)


def find_normalisation(graph: Graph, node: onnx.NodeProto) -> Item | None:
    """LayerNormalization over the last axis, its own operator or spelled out."""
    chain = start_chain(graph, node, channel_axis=1)
    if chain is None or not chain.shape or chain.shape[-1] % LANES:
        return None
    if node.op_type == "LayerNormalization":
        operands = [graph.constants.get(name) for name in node.input[1:] if name]
        last = graph.attribute(node, "axis", -1) in (-1, len(chain.shape) - 1)
        if not last or any(o is None or o.size != chain.shape[-1] for o in operands):
            return None
        for operation, values in zip(("mul", "add"), operands, strict=False):
            if values is not None:
                chain.add_channel(operation, values)
        epsilon = repr(float(graph.attribute(node, "epsilon", 1e-5)))
    else:
        epsilon = str(graph.attribute(node, "epsilon"))
    follow(graph, chain)
    count, length = math.prod(chain.shape[:-1]), chain.shape[-1]
    rows = Rows("normalise", count, length, epsilon, tuple(chain.steps))
    item = flat_item(node, chain, "Rows", rows)
    item.maps = [node.input[0]]
    return item


def _item(graph: Graph, node: onnx.NodeProto, rows: Rows) -> Item | None:
    chain = start_chain(graph, node)
    return None if chain is None else flat_item(node, chain, "Rows", rows)
