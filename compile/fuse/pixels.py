"""Maps of bytes that only convolutions read, after a cast and a scale and shift of all values:
the kernels read the bytes."""

from dataclasses import dataclass, replace

import onnx

from compile.fuse.graph import Graph
from compile.fuse.slices import cut
from compile.kernels.layout import MapShape
from compile.kernels.pixels import Pixels


@dataclass(frozen=True)
class ByteMap:
    """A float map that is `scale * (bytes + shift)`, the shift in `pixels`.

    `source` is the tensor of bytes, `shape` what it is seen as; `nodes` lie between it and the map.
    """

    source: str
    shape: MapShape
    pixels: Pixels
    scale: float
    nodes: tuple[onnx.NodeProto, ...]


def find_bytes(graph: Graph, name: str) -> ByteMap | None:
    """What the float map `name` is made of; None when of no bytes, or when others read it too."""
    readers = graph.readers(name)
    if name in graph.outputs or not all(_takes_bytes(graph, node, name) for node in readers):
        return None
    nodes: list[onnx.NodeProto] = []
    scale, shift = 1.0, 0.0
    # From the convolutions upwards: what is known is scale * (value + shift).
    node = graph.maker(name)
    while node is not None and (step := _step(graph, node)) is not None:
        nodes.insert(0, node)
        name, factor, offset = step
        scale, shift = scale * factor, (offset + shift) / factor
        node = _maker_for_one(graph, name)
    if node is None or not _casts_bytes(graph, node):
        return None
    found = _in_place(graph, node.input[0])
    if found is None:
        return None
    shifted = replace(found.pixels, shift=shift)
    return replace(found, pixels=shifted, scale=scale, nodes=(*found.nodes, node, *nodes))


def _takes_bytes(graph: Graph, node: onnx.NodeProto, name: str) -> bool:
    """Whether the node is a convolution that `find_convolution` will make of bytes."""
    plain = node.op_type == "Conv" and not node.domain and graph.attribute(node, "group", 1) == 1
    return plain and list(node.input).index(name) == 0 and node.input[1] in graph.constants


def _maker_for_one(graph: Graph, name: str) -> onnx.NodeProto | None:
    """The node that computes a value, when the value is read once."""
    alone = len(graph.readers(name)) == 1 and name not in graph.outputs
    return graph.maker(name) if alone else None


def _step(graph: Graph, node: onnx.NodeProto) -> tuple[str, float, float] | None:
    """(value, factor, offset) of a node that is factor * value + offset with numbers."""
    if node.domain or node.op_type not in ("Add", "Sub", "Mul", "Div"):
        return None
    constant = [name in graph.constants for name in node.input]
    if constant.count(True) != 1:
        return None
    second = constant[1]
    values, name = graph.constants[node.input[second]], node.input[not second]
    if values.size != 1 or graph.shape(name) != graph.shape(node.output[0]):
        return None
    number = float(values.reshape(()))
    if node.op_type == "Add":
        return name, 1.0, number
    if node.op_type == "Sub":
        return (name, 1.0, -number) if second else (name, -1.0, number)
    if number == 0.0 or (node.op_type == "Div" and not second):
        return None
    return name, (number if node.op_type == "Mul" else 1.0 / number), 0.0


def _casts_bytes(graph: Graph, node: onnx.NodeProto) -> bool:
    return (
        node.op_type == "Cast"
        and not node.domain
        and graph.attribute(node, "to") == onnx.TensorProto.FLOAT
        and graph.is_bytes(node.input[0])
    )


def _in_place(graph: Graph, name: str) -> ByteMap | None:
    """Where the bytes of a map lie: in a tensor of their own, or in rows of a queue of maps."""
    shape = graph.shape(name)
    if shape is None or len(shape) != 4 or 0 in shape:
        return None
    return _rows_of_queue(graph, name, shape) or ByteMap(
        name, MapShape(*shape), Pixels(0.0, 0, shape[1], shape[1]), 1.0, ()
    )


def _rows_of_queue(graph: Graph, name: str, shape: tuple[int, ...]) -> ByteMap | None:
    """Every n-th map of a queue, their channels one after the other."""
    flat = _maker_for_one(graph, name)
    rows = _maker_for_one(graph, flat.input[0]) if flat and flat.op_type == "Reshape" else None
    if flat is None or rows is None or rows.op_type != "Slice" or flat.domain or rows.domain:
        return None
    queue, taken, places = graph.shape(rows.input[0]), graph.shape(flat.input[0]), cut(graph, rows)
    if queue is None or taken is None or places is None or places.keys() != {0}:
        return None
    start, step = places[0]
    channels = queue[1]
    if shape != (1, taken[0] * channels, *queue[2:]):
        return None
    whole = MapShape(1, queue[0] * channels, *queue[2:])
    pixels = Pixels(0.0, start * channels, channels, step * channels)
    return ByteMap(rows.input[0], whole, pixels, 1.0, (rows, flat))
