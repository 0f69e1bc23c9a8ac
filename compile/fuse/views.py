"""Values that show elements of another tensor: reshaped, transposed, split or sliced."""

from dataclasses import dataclass, replace

import numpy as np
import onnx

from compile.fuse.graph import Graph
from compile.kernels.layout import Array

Nodes = list[onnx.NodeProto]

_RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


@dataclass(frozen=True)
class View:
    """`scale` times elements of `source`. `places` holds no values, but has the value's shape and
    the strides by which it lies in the source, in elements; the first is at `offset`. `nodes` are
    those between the source and the value."""

    source: str
    places: Array
    offset: int = 0
    scale: float = 1.0
    nodes: tuple[onnx.NodeProto, ...] = ()

    def turned(self) -> "View":
        """With the last two axes exchanged."""
        return replace(self, places=self.places.swapaxes(-1, -2))


def view_of(graph: Graph, name: str) -> View | None:
    """What `name` shows of the value farthest up the graph of which strides can say it; None when
    it is known, or no float32 of a known shape."""
    path, names = Nodes(), [name]
    while (node := graph.maker(names[0])) is not None and (source := _source(graph, node)):
        path.insert(0, node)
        names.insert(0, source)
    views = (_walk(graph, names[first:], path[first:]) for first in range(len(names)))
    return next((view for view in views if view is not None), None)


def written_through(graph: Graph, name: str, path: Nodes) -> View | None:
    """Where the elements of `name` lie in what `path`, nodes that reshape and transpose it, makes
    of it; None when strides cannot say it."""
    last = path[-1].output[0] if path else name
    places = np.empty(graph.shape(last) or (), np.int8)
    for node in path[::-1]:
        if node.op_type == "Transpose":
            places = places.transpose(np.argsort(_permutation(graph, node, places.ndim)))
            continue
        seen = _reshaped(places, graph.shape(node.input[0]) or ())
        if seen is None:
            return None
        places = seen
    return View(last, places, nodes=tuple(path))


def moves(node: onnx.NodeProto) -> bool:
    """Whether the node only reshapes or transposes its first input."""
    return not node.domain and node.op_type in (*_RESHAPES, "Transpose")


def swaps_last(graph: Graph, node: onnx.NodeProto) -> bool:
    """Whether the node exchanges the last two axes."""
    rank = len(graph.shape(node.input[0]) or ())
    if node.op_type != "Transpose" or node.domain or rank < 2:
        return False
    return _permutation(graph, node, rank) == [*range(rank - 2), rank - 1, rank - 2]


def scaled(graph: Graph, node: onnx.NodeProto) -> tuple[str, float] | None:
    """The value that the node multiplies by one number, or divides by it, and the factor."""
    if node.domain or node.op_type not in ("Mul", "Div"):
        return None
    for name, other in (node.input, list(node.input)[::-1]):
        number = graph.constants.get(other)
        same = graph.shape(name) == graph.shape(node.output[0])
        if number is None or number.size != 1 or not same:
            continue
        value = float(number.reshape(()))
        if node.op_type == "Mul":
            return (name, value) if np.isfinite(value) else None
        return (name, 1.0 / value) if value and other == node.input[1] else None
    return None


def _source(graph: Graph, node: onnx.NodeProto) -> str:
    """The input that the node's outputs show elements of; empty when there is none."""
    if moves(node) or (not node.domain and node.op_type in ("Split", "Slice", "Gather")):
        return str(node.input[0])
    found = scaled(graph, node)
    return found[0] if found else ""


def _walk(graph: Graph, names: list[str], path: Nodes) -> View | None:
    """What the last of `names` shows of the first; each node of `path` makes the next of them."""
    shape = graph.shape(names[0])
    if shape is None or 0 in shape or not graph.is_float(names[0]) or names[0] in graph.constants:
        return None
    whole = np.empty(shape, np.int8)
    places, scale = whole, 1.0
    for node, name in zip(path, names[1:], strict=True):
        factor = scaled(graph, node)
        seen = _seen(graph, node, places, name) if factor is None else places
        if seen is None or seen.shape != graph.shape(name):
            return None
        places, scale = seen, scale * (factor[1] if factor else 1.0)
    offset = places.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return View(names[0], places, offset, scale, tuple(path))


def _seen(graph: Graph, node: onnx.NodeProto, places: Array, name: str) -> Array | None:
    """The places that the node's output `name` shows of those of its input."""
    if node.op_type == "Transpose":
        return places.transpose(_permutation(graph, node, places.ndim))
    if node.op_type == "Split":
        axis = graph.attribute(node, "axis", 0)
        ends = np.cumsum([(graph.shape(o) or (0,) * places.ndim)[axis] for o in node.output])
        position = list(node.output).index(name)
        return _cut(places, axis, slice(ends[position - 1] if position else 0, ends[position]))
    if node.op_type == "Gather":
        index = graph.constants.get(node.input[1])
        if index is None or index.size != 1 or index.ndim > 1:
            return None
        axis = graph.attribute(node, "axis", 0)
        at = int(index.reshape(())) % places.shape[axis]
        return _cut(places, axis, slice(at, at + 1) if index.ndim else at)
    if node.op_type == "Slice":
        return _sliced(graph, node, places)
    return _reshaped(places, graph.shape(name) or ())


def _sliced(graph: Graph, node: onnx.NodeProto, places: Array) -> Array | None:
    operands = [graph.constants.get(name) for name in node.input[1:]]
    if len(operands) < 2 or any(operand is None for operand in operands):
        return None
    starts, ends, *rest = (o.reshape(-1).tolist() for o in operands if o is not None)
    axes = rest[0] if rest else range(len(starts))
    steps = rest[1] if len(rest) > 1 else [1] * len(starts)
    if any(step < 1 for step in steps):
        return None
    for axis, *bounds in zip(axes, starts, ends, steps, strict=True):
        places = _cut(places, axis, slice(*bounds))
    return places


def _cut(places: Array, axis: int, which: int | slice) -> Array:
    index: list[int | slice] = [slice(None)] * places.ndim
    index[axis] = which
    cut: Array = places[tuple(index)]
    return cut


def _reshaped(places: Array, shape: tuple[int, ...]) -> Array | None:
    """None where that would take a copy."""
    seen = places.reshape(shape)
    return seen if np.may_share_memory(seen, places) else None


def _permutation(graph: Graph, node: onnx.NodeProto, rank: int) -> list[int]:
    return list(graph.attribute(node, "perm", range(rank)[::-1]))
