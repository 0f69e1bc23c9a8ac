"""Joins of maps: channels one after the other, some enlarged on the way."""

import numpy as np
import onnx

from compile.fuse.graph import Graph
from compile.fuse.items import Item, map_shape, start_chain
from compile.fuse.resize import find_interpolation
from compile.fuse.steps import Chain, follow
from compile.kernels.layout import BLOCKED
from compile.kernels.mix import Mix, Source


def find_mix(graph: Graph, node: onnx.NodeProto) -> Item | None:
    """Concat of the channels of several maps, of which some may be enlarged on the way."""
    chain = start_chain(graph, node)
    if chain is None or len(chain.shape) != 4 or graph.attribute(node, "axis") not in (1, -3):
        return None
    before = [e for name in node.input if (e := _enlargement(graph, name)) is not None]
    return _mix(graph, node, chain, maps_read(graph, node), before)


def maps_read(graph: Graph, node: onnx.NodeProto) -> list[str]:
    """A node's inputs; where one is enlarged for it alone, the map before that."""
    enlarged = [_enlargement(graph, name) for name in node.input]
    return [
        name if resize is None else resize.input[0]
        for name, resize in zip(node.input, enlarged, strict=True)
    ]


def find_resize(graph: Graph, node: onnx.NodeProto) -> Item | None:
    """Enlargement by whole factors, each pixel a rectangle of equal ones, or any other one."""
    chain = start_chain(graph, node)
    if chain is None:
        return None
    if not _is_enlargement(graph, node):
        return find_interpolation(graph, node, chain)
    reader = graph.sole_reader(node.output[0])
    if reader is not None and _enlargement(graph, node.output[0]) is not None:
        joins = reader.op_type == "Concat" and graph.attribute(reader, "axis") in (1, -3)
        if joins and not reader.domain:
            return None  # the join reads the small map
    return _mix(graph, node, chain, [node.input[0]], [])


def _mix(
    graph: Graph, node: onnx.NodeProto, chain: Chain, names: list[str], before: list[onnx.NodeProto]
) -> Item | None:
    """Channels of the maps `names`; `before` are further nodes that the kernel replaces."""
    shapes = [map_shape(graph, name) for name in names]
    height, width = chain.shape[2:]
    if any(shape is None for shape in shapes):
        return None
    follow(graph, chain)
    chain.nodes[:0] = before

    def build(layouts: list[str], out: str) -> tuple[str, dict[str, object]]:
        sources = tuple(
            Source(
                shape,
                layout,
                0,
                shape.channels,
                (height // shape.height, width // shape.width),
            )
            for shape, layout in zip(shapes, layouts, strict=True)
            if shape is not None
        )
        return "Mix", {"spec": Mix(sources, tuple(chain.steps))}

    return Item(node, chain, names, False, (BLOCKED,), build)


def _enlargement(graph: Graph, name: str) -> onnx.NodeProto | None:
    """The node that enlarges a map to `name` for one reader alone."""
    node = graph.maker(name)
    if node is None or graph.sole_reader(name) is None or not _is_enlargement(graph, node):
        return None
    return node


# How an output's pixel finds its input's: with whole factors both are division without remainder.
_WHOLE_STEPS = (("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"))


def _is_enlargement(graph: Graph, node: onnx.NodeProto) -> bool:
    """Whether the node repeats each pixel of a map, in both directions as often as it says."""
    into = map_shape(graph, node.input[0]) if node.input else None
    out = map_shape(graph, node.output[0])
    if into is None or out is None or node.domain or node.op_type not in ("Resize", "Upsample"):
        return False
    if node.op_type == "Resize":
        way = (
            graph.attribute(node, "coordinate_transformation_mode", "half_pixel"),
            graph.attribute(node, "nearest_mode", "round_prefer_floor"),
        )
        # Before opset 11 there was one way, that of Upsample.
        if (graph.opset() > 10 and way not in _WHOLE_STEPS) or graph.attribute(node, "axes"):
            return False
    whole = out.height % into.height == 0 and out.width % into.width == 0
    same = (into.batch, into.channels) == (out.batch, out.channels)
    nearest = graph.attribute(node, "mode", "nearest") == "nearest"
    factors = [1.0, 1.0, out.height / into.height, out.width / into.width]
    return whole and same and nearest and _scales(graph, node) in (None, factors)


def _scales(graph: Graph, node: onnx.NodeProto) -> list[float] | None:
    """The factors that the node states (empty when only a run knows them); None: only sizes."""
    stated = graph.attribute(node, "scales")
    position = 2 if node.op_type == "Resize" and graph.opset() > 10 else 1
    name = node.input[position] if len(node.input) > position else ""
    if stated is None and name:
        stated = graph.constants.get(name, np.array([np.nan])).tolist()
    return list(stated) if stated else None
