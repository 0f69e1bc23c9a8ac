"""Maps that become rows of channels at the end of a network: the transposes, reshapes and joins
that detection heads end with are one node."""

from dataclasses import dataclass

import onnx

from compile.fuse.graph import Graph
from compile.fuse.items import DOMAIN, Item, map_shape, start_chain
from compile.graph import node_label
from compile.kernels.layout import NCHW
from compile.kernels.mix import Source
from compile.kernels.stack import Segment, Stack

STACK_NODE = "Stack"


@dataclass(frozen=True)
class _Rows:
    """Maps of one item whose channels make the rows of a segment, and the nodes between."""

    sources: tuple[str, ...]
    nodes: tuple[onnx.NodeProto, ...]


def combine_stacks(graph: Graph) -> None:
    """Replace every stack of rows."""
    for node in list(graph.nodes)[::-1]:
        # An earlier stack may have taken the node.
        is_there = graph.maker(node.output[0]) is node
        found = _stack(graph, node) if is_there and not node.domain else None
        if found is None:
            continue
        inner = [n for rows in found for n in rows.nodes] + _between(graph, node)
        ordered = [n for n in graph.nodes if any(n is old for old in [*inner, node])]
        new = onnx.helper.make_node(
            STACK_NODE,
            [name for rows in found for name in rows.sources],
            list(node.output),
            name="\n".join(node_label(n) for n in ordered),
            domain=DOMAIN,
            counts=[len(rows.sources) for rows in found],
        )
        graph.replace(ordered, [new])


def find_stack(graph: Graph, node: onnx.NodeProto) -> Item | None:
    """The kernel for what `combine_stacks` made."""
    chain = start_chain(graph, node)
    if chain is None:
        return None
    counts = list(graph.attribute(node, "counts"))
    names = list(node.input)
    shapes = [map_shape(graph, name) for name in names]

    def build(layouts: list[str], out: str) -> tuple[str, dict[str, object]]:
        sources = [
            Source(shape, layout, 0, shape.channels)
            for shape, layout in zip(shapes, layouts, strict=True)
            if shape is not None
        ]
        segments = []
        for count in counts:
            segments.append(Segment(tuple(sources[:count])))
            del sources[:count]
        return STACK_NODE, {"spec": Stack(tuple(segments)), "shape": chain.shape}

    return Item(node, chain, names, False, (NCHW,), build, is_map=False, reads_maps=True)


def _stack(graph: Graph, node: onnx.NodeProto) -> list[_Rows] | None:
    """The segments whose rows `node` gives, in order."""
    if node.op_type == "Transpose" and list(graph.attribute(node, "perm", ())) == [0, 2, 1]:
        names = [n for m in _between(graph, node) for n in m.input] or list(node.input)
        rows = [_flattened(graph, name) for name in names]
    elif node.op_type == "Concat" and graph.attribute(node, "axis") in (1, -2):
        if len(graph.shape(node.output[0]) or ()) != 3:
            return None
        rows = [_reshaped(graph, name) for name in node.input]
    elif node.op_type == "Transpose":
        rows = [_transposed(graph, node.output[0], last=True)]
    else:
        return None
    found = [one for one in rows if one is not None]
    return found if len(found) == len(rows) else None


def _between(graph: Graph, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The join of positions before a transpose of channels and positions."""
    join = graph.maker(node.input[0]) if node.op_type == "Transpose" else None
    joins = join is not None and join.op_type == "Concat" and not join.domain
    if not joins or join is None or graph.attribute(join, "axis") not in (2, -1):
        return []
    three = len(graph.shape(join.output[0]) or ()) == 3
    return [join] if three and graph.sole_reader(join.output[0]) is node else []


def _flattened(graph: Graph, name: str) -> _Rows | None:
    """(1, C, H * W) of a map."""
    node = graph.maker(name)
    if node is None or node.op_type != "Reshape" or graph.sole_reader(name) is None:
        return None
    into = map_shape(graph, node.input[0])
    if into is None or into.batch != 1:
        return None
    if graph.shape(name) != (1, into.channels, into.pixels):
        return None
    return _with_join(graph, node.input[0], [node])


def _reshaped(graph: Graph, name: str) -> _Rows | None:
    """(1, N, K) of a map whose channels were moved last."""
    node = graph.maker(name)
    if node is None or node.op_type != "Reshape" or graph.sole_reader(name) is None:
        return None
    shape, rows = graph.shape(name), _transposed(graph, node.input[0])
    if shape is None or len(shape) != 3 or shape[0] != 1 or rows is None:
        return None
    return _Rows(rows.sources, (*rows.nodes, node))


def _transposed(graph: Graph, name: str, last: bool = False) -> _Rows | None:
    """(1, H, W, C) of a map; for one reader alone, unless `last`."""
    node = graph.maker(name)
    if node is None or node.op_type != "Transpose" or node.domain:
        return None
    if not last and graph.sole_reader(name) is None:
        return None
    into = map_shape(graph, node.input[0])
    if list(graph.attribute(node, "perm", ())) != [0, 2, 3, 1] or into is None or into.batch != 1:
        return None
    return _with_join(graph, node.input[0], [] if last else [node])


def _with_join(graph: Graph, name: str, nodes: list[onnx.NodeProto]) -> _Rows:
    """The map, or the maps whose channels are joined to it for this one reader."""
    join = graph.maker(name)
    if (
        join is not None
        and join.op_type == "Concat"
        and not join.domain
        and graph.attribute(join, "axis") in (1, -3)
        and graph.sole_reader(name) is not None
        and all(map_shape(graph, n) is not None for n in join.input)
    ):
        return _Rows(tuple(join.input), (join, *nodes))
    return _Rows((name,), tuple(nodes))
