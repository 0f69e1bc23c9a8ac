"""Convolutions of a space-to-depth of slices read the whole map instead.

Some detectors start with `Concat` of x[:, :, i::s, j::s] for all i, j below s. What convolves that
is a convolution of x itself, with kernel, stride and pads s times as large.
"""

from dataclasses import dataclass

import numpy as np
import onnx

from compile.fuse.graph import Graph
from compile.fuse.items import map_shape
from compile.graph import node_label
from compile.kernels.layout import Array


@dataclass(frozen=True)
class _Grid:
    """Every `step`-th row and column of `source`, from `first` on, cut out by `nodes`."""

    source: str
    step: int
    first: tuple[int, int]
    nodes: tuple[onnx.NodeProto, ...]


def fold_slices(graph: Graph) -> None:
    """Rewrite every such convolution."""
    for node in list(graph.nodes):
        if node.op_type == "Conv" and not node.domain:
            _fold(graph, node)


def _fold(graph: Graph, conv: onnx.NodeProto) -> None:
    join = graph.maker(conv.input[0])
    weights = graph.constants.get(conv.input[1])
    if join is None or weights is None or weights.ndim != 4 or not _joins_channels(graph, join):
        return
    grids = [_grid(graph, name) for name in join.input]
    first = grids[0]
    plain = (
        graph.attribute(conv, "group", 1) == 1
        and all(d == 1 for d in graph.attribute(conv, "dilations", (1,)))
        and graph.attribute(conv, "auto_pad", "NOTSET") in ("NOTSET", "VALID")
    )
    if first is None or not plain:
        return
    same = [g for g in grids if g is not None and (g.source, g.step) == (first.source, first.step)]
    source = map_shape(graph, first.source)
    if source is None or len(same) != len(grids) or len(same) * source.channels != weights.shape[1]:
        return
    cuts = {id(node): node for grid in same for node in grid.nodes}
    inner = [*cuts.values(), join]
    allowed = {id(node) for node in [*inner, conv]}
    names = [name for node in inner for name in node.output]
    if any(n in graph.outputs or not {id(r) for r in graph.readers(n)} <= allowed for n in names):
        return
    step = first.step
    whole = _spread(weights, [grid.first for grid in same], step)
    attributes = {
        "strides": [step * s for s in graph.attribute(conv, "strides", (1, 1))],
        "pads": [step * p for p in graph.attribute(conv, "pads", (0, 0, 0, 0))],
        "kernel_shape": list(whole.shape[2:]),
    }
    name = graph.add_constant(f"{conv.input[1]}/spread", whole)
    new = onnx.helper.make_node(
        "Conv",
        [first.source, name, *conv.input[2:]],
        list(conv.output),
        name="\n".join(node_label(node) for node in [*inner, conv]),
        **attributes,
    )
    graph.replace([*inner, conv], [new])


def _joins_channels(graph: Graph, node: onnx.NodeProto) -> bool:
    axis = graph.attribute(node, "axis")
    return node.op_type == "Concat" and not node.domain and axis in (1, -3)


def _spread(weights: Array, firsts: list[tuple[int, int]], step: int) -> Array:
    """Weights for the whole map: those of the k-th slice at the places it was cut from."""
    outputs, _, height, width = weights.shape
    pieces = weights.reshape(outputs, len(firsts), -1, height, width)
    whole = np.zeros((outputs, pieces.shape[2], height * step, width * step), np.float32)
    for n, (row, column) in enumerate(firsts):
        whole[:, :, row::step, column::step] += pieces[:, n]
    return whole


def _grid(graph: Graph, name: str) -> _Grid | None:
    """What slices of both axes, one after the other or in one node, take from a map."""
    nodes: list[onnx.NodeProto] = []
    cuts = {2: (0, 1), 3: (0, 1)}
    while (node := graph.maker(name)) is not None and node.op_type == "Slice":
        more = cut(graph, node)
        if more is None or any(cuts.get(axis) != (0, 1) for axis in more):
            return None
        cuts |= more
        nodes.insert(0, node)
        name = node.input[0]
    (row, step), (column, other) = cuts[2], cuts[3]
    into = map_shape(graph, name)
    if not nodes or into is None or step != other or step < 2 or max(row, column) >= step:
        return None
    if into.height % step or into.width % step:
        return None
    return _Grid(name, step, (row, column), tuple(nodes))


def cut(graph: Graph, node: onnx.NodeProto) -> dict[int, tuple[int, int]] | None:
    """(start, step) by axis of a Slice with constants that goes on to the end of its axes."""
    operands = [graph.constants.get(name) for name in node.input[1:]]
    shape = graph.shape(node.input[0])
    if len(operands) != 4 or shape is None or len(shape) != 4:
        return None
    if any(operand is None for operand in operands):
        return None
    starts, ends, axes, steps = (
        operand.reshape(-1).tolist() for operand in operands if operand is not None
    )
    result: dict[int, tuple[int, int]] = {}
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis %= len(shape)
        if start < 0 or step < 1 or end < shape[axis] or axis in result:
            return None
        result[axis] = (start, step)
    return result
