"""Attention in the forms that exporters write becomes one node: products of queries, keys and
values around a softmax, with a scale, a mask, and what splits and transposes heads."""

from dataclasses import dataclass, replace

import numpy as np
import onnx

from compile.fuse.graph import Graph
from compile.fuse.items import DOMAIN, LAYOUTS_OF_MAPS, Item, map_shape, start_chain
from compile.fuse.views import View, moves, scaled, swaps_last, view_of, written_through
from compile.graph import node_label
from compile.kernels.attention import Attention, Operand
from compile.kernels.layout import BLOCKED, LANES, NCHW, MapShape
from compile.kernels.spec import decode, encode

# Not "Attention": that is an operator of ONNX.
ATTENTION_NODE = "DotProductAttention"
# With fewer queries most of a vector's lanes would be idle.
_LEAST_QUERIES = LANES // 2

Nodes = list[onnx.NodeProto]


@dataclass(frozen=True)
class _Scores:
    """`scale` times the product of two matrices, plus a mask; `nodes` begin with the product."""

    nodes: Nodes
    scale: float
    mask: str = ""


@dataclass(frozen=True)
class _Mixed:
    """Values weighted by a softmax; `nodes` end with the product. `turned`: channels are the rows
    of the values, and of the product."""

    nodes: Nodes
    values: str
    turned: bool


def combine_attention(graph: Graph) -> None:
    """Replace every attention."""
    for node in list(graph.nodes):
        if node.op_type == "Softmax" and not node.domain:
            _combine(graph, node)


def find_attention(graph: Graph, node: onnx.NodeProto) -> Item | None:
    """The kernel for what `combine_attention` made; where heads are whole blocks of channels it
    reads and writes blocked maps."""
    chain = start_chain(graph, node)
    if chain is None:
        return None
    plain = decode(Attention, graph.attribute(node, "spec"))
    names = list(node.input)
    shapes = [map_shape(graph, name) for name in names]
    out = map_shape(graph, chain.output)
    is_map = _in_blocks(plain.result, out) is not None

    def build(layouts: list[str], written: str) -> tuple[str, dict[str, object]]:
        def placed(operand: Operand, shape: MapShape | None, layout: str) -> Operand:
            return (_in_blocks(operand, shape) if layout == BLOCKED else None) or operand

        query, key, value = (
            placed(operand, shapes[operand.source], layouts[operand.source])
            for operand in (plain.query, plain.key, plain.value)
        )
        result = placed(plain.result, out, written)
        spec = replace(plain, query=query, key=key, value=value, result=result)
        return ATTENTION_NODE, {"spec": spec, "shape": out.stored(written) if out else chain.shape}

    return Item(
        node,
        chain,
        names,
        False,
        LAYOUTS_OF_MAPS if is_map else (NCHW,),
        build,
        is_map=is_map,
        reads_maps=True,
        plain=frozenset(
            names[operand.source]
            for operand in plain.operands
            if _in_blocks(operand, shapes[operand.source]) is None
        ),
    )


def _in_blocks(operand: Operand, shape: MapShape | None) -> Operand | None:
    return None if shape is None else operand.in_blocks(shape)


def _combine(graph: Graph, softmax: onnx.NodeProto) -> None:
    shape, scores, mixed = _shape(graph, softmax), _scores(graph, softmax), _mixed(graph, softmax)
    if shape is None or scores is None or mixed is None:
        return
    names = [*scores.nodes[0].input, mixed.values]
    leading = [(graph.shape(name) or ())[:-2] for name in names]
    if any(axes != shape[:-2] for axes in leading):
        return
    query, key, value = (view_of(graph, name) for name in names)
    if query is None or key is None or value is None or value.scale != 1.0:
        return
    key, value = key.turned(), value.turned() if mixed.turned else value
    masks, mask = Nodes(), None
    if scores.mask:
        found = _mask(graph, scores.mask, shape)
        if found is None:
            return
        masks, mask = found
    views = [query, key, value, *([mask] if mask else [])]
    inputs = list(dict.fromkeys(view.source for view in views))
    result = _result(graph, mixed)
    spec = Attention(
        heads=shape[:-2],
        queries=shape[-2],
        keys=shape[-1],
        width=query.places.shape[-1],
        value_width=value.places.shape[-1],
        scale=scores.scale * query.scale * key.scale,
        query=_operand(query, inputs),
        key=_operand(key, inputs),
        value=_operand(value, inputs),
        result=_operand(result, inputs),
        mask=None if mask is None else _operand(mask, inputs),
    )
    if not spec.fits:
        return
    gone = [*scores.nodes, softmax, *mixed.nodes, *result.nodes]
    work = [*(node for view in views for node in view.nodes), *gone]
    new = onnx.helper.make_node(
        ATTENTION_NODE,
        inputs,
        [result.source],
        name="\n".join(dict.fromkeys(node_label(node) for node in work)),
        domain=DOMAIN,
        spec=encode(spec),
    )
    graph.replace(gone, [*masks, new])


def _operand(view: View, inputs: list[str]) -> Operand:
    """The view for the kernel; that of the result is of no input."""
    strides = zip(view.places.shape, view.places.strides, strict=True)
    *heads, position, channel = (0 if size == 1 else stride for size, stride in strides)
    source = inputs.index(view.source) if view.source in inputs else 0
    return Operand(source, view.offset, tuple(heads), position, channel, LANES * channel)


def _shape(graph: Graph, softmax: onnx.NodeProto) -> tuple[int, ...] | None:
    """(…, queries, keys), where the softmax is over keys and there are enough queries."""
    shape = graph.shape(softmax.output[0])
    if shape is None or len(shape) < 2 or 0 in shape or shape[-2] < _LEAST_QUERIES:
        return None
    axis = graph.attribute(softmax, "axis", -1 if graph.opset() >= 13 else 1)
    return shape if axis in (-1, len(shape) - 1) else None


def _scores(graph: Graph, softmax: onnx.NodeProto) -> _Scores | None:
    """What the softmax is of."""
    name = softmax.input[0]
    node = graph.maker(name)
    if node is None or node.op_type != "Add" or graph.sole_reader(name) is None:
        return _product(graph, name)
    for value, mask in (node.input, list(node.input)[::-1]):
        found = _product(graph, value)
        if found is not None and graph.is_float(mask):
            return replace(found, nodes=[*found.nodes, node], mask=mask)
    return None


def _product(graph: Graph, name: str) -> _Scores | None:
    """The product of two matrices that is multiplied by numbers to become `name`."""
    nodes, scale = Nodes(), 1.0
    while (node := graph.maker(name)) is not None and graph.sole_reader(name) is not None:
        nodes.insert(0, node)
        if node.op_type == "MatMul" and not node.domain:
            return _Scores(nodes, scale)
        found = scaled(graph, node)
        if found is None:
            return None
        name, factor = found
        scale *= factor
    return None


def _mixed(graph: Graph, softmax: onnx.NodeProto) -> _Mixed | None:
    """What the softmax's result is for."""
    name, nodes = softmax.output[0], Nodes()
    node = graph.sole_reader(name)
    turned = node is not None and swaps_last(graph, node)
    if node is not None and turned:
        nodes, name = [node], node.output[0]
        node = graph.sole_reader(name)
    if node is None or node.op_type != "MatMul" or node.domain or node.input[turned] != name:
        return None
    return _Mixed([*nodes, node], node.input[not turned], turned)


def _result(graph: Graph, mixed: _Mixed) -> View:
    """Where the result lies in what the nodes make of it that reshape and transpose it."""
    product = name = mixed.nodes[-1].output[0]
    path = Nodes()
    while (node := graph.sole_reader(name)) is not None and moves(node):
        path.append(node)
        name = node.output[0]
    while (view := written_through(graph, product, path)) is None:
        path.pop()
    return view.turned() if mixed.turned else view


def _mask(graph: Graph, name: str, scores: tuple[int, ...]) -> tuple[Nodes, View] | None:
    """The mask as keys by queries, transposed ahead if it is known and else by a node; None when
    it does not spread over all scores."""
    shape = graph.shape(name) or ()
    padded = (1,) * (len(scores) - len(shape)) + shape
    fits = all(size in (1, whole) for size, whole in zip(padded, scores, strict=False))
    if len(shape) < 2 or len(padded) != len(scores) or not fits:
        return None
    places = np.empty((*padded[:-2], padded[-1], padded[-2]), np.int8)
    if name in graph.constants:
        turned = np.ascontiguousarray(graph.constants[name].swapaxes(-1, -2))
        return Nodes(), View(graph.add_constant(f"{name}/turned", turned), places)
    source = graph.declare(f"{name}/turned", (*shape[:-2], shape[-1], shape[-2]))
    perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    node = onnx.helper.make_node("Transpose", [name], [source], name=source, perm=perm)
    return [node], View(source, places)
