"""Which nodes start a kernel of ours: convolutions, pooling, joins of channels, dense layers."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import onnx

from compile.fuse.graph import Graph
from compile.fuse.items import LAYOUTS_OF_MAPS, Item, map_shape, start_chain
from compile.fuse.pixels import find_bytes
from compile.fuse.steps import Chain, fold_linear, follow, renumbered, take
from compile.kernels import depthwise, gemv
from compile.kernels.conv import Convolution
from compile.kernels.elementwise import Elementwise
from compile.kernels.layout import (
    BLOCKED,
    LANES,
    NCHW,
    NHWC,
    Array,
    MapShape,
    pack_conv_weights,
    pad_channels,
)
from compile.kernels.pool import Pooling
from compile.ops.window import windows

Pair = tuple[int, int]


def find_convolution(graph: Graph, node: onnx.NodeProto) -> Item | None:
    """Conv over two axes with constant weights."""
    into, chain = map_shape(graph, node.input[0]), start_chain(graph, node)
    weights = graph.constants.get(node.input[1])
    if into is None or chain is None or weights is None or len(chain.shape) != 4:
        return None
    groups = graph.attribute(node, "group", 1)
    if not _groups_fit(into.channels, weights.shape[0], groups):
        return None
    window = windows(
        (into.height, into.width),
        weights.shape[2:],
        graph.attribute(node, "strides"),
        graph.attribute(node, "dilations"),
        graph.attribute(node, "pads"),
        graph.attribute(node, "auto_pad", "NOTSET"),
    )
    if not _start_with_bias(graph, node, chain):
        return None
    weights = _finish(graph, chain, weights, 0)
    is_depthwise = groups == into.channels > 1
    found = find_bytes(graph, node.input[0])
    if found is not None:
        weights = (weights * found.scale).astype(np.float32)
    conv = Convolution(
        into if found is None else found.shape,
        into.channels,
        MapShape(*chain.shape),
        _pair(window.kernel),
        _pair(window.strides),
        _pair(window.dilations),
        _pair(window.before),
        groups,
        BLOCKED,
        BLOCKED,
        tuple(chain.steps),
        pixels=None if found is None else found.pixels,
    )
    packed = depthwise.pack_weights(weights) if is_depthwise else pack_conv_weights(weights, groups)

    def build(layouts: list[str], out: str) -> tuple[str, dict[str, object]]:
        spec = _with_layouts(conv, layouts[0], out)
        return ("Depthwise" if is_depthwise else "Convolution"), {"spec": spec}

    writes = (BLOCKED,) if is_depthwise else LAYOUTS_OF_MAPS
    # Groups of whole blocks can be found in a blocked map only.
    needs_blocked = is_depthwise or groups > 1
    name = f"{node.input[1]}/packed"
    reads, before = ([node.input[0]], ()) if found is None else ([found.source], found.nodes)
    packs = [(name, packed)]
    return Item(node, chain, reads, needs_blocked, writes, build, packs, before=before)


def find_transposed(graph: Graph, node: onnx.NodeProto) -> Item | None:
    """ConvTranspose whose kernel is as large as its stride: outputs do not overlap."""
    into, chain = map_shape(graph, node.input[0]), start_chain(graph, node)
    weights = graph.constants.get(node.input[1])
    if into is None or chain is None or weights is None or len(chain.shape) != 4:
        return None
    strides = _pair(graph.attribute(node, "strides", (1, 1)))
    plain = (
        graph.attribute(node, "group", 1) == 1
        and graph.attribute(node, "auto_pad", "NOTSET") in ("NOTSET", "VALID")
        and not any(graph.attribute(node, "pads", (0,)))
        and not any(graph.attribute(node, "output_padding", (0,)))
        and all(d == 1 for d in graph.attribute(node, "dilations", (1,)))
        and weights.shape[2:] == strides
        and chain.shape[2:] == (into.height * strides[0], into.width * strides[1])
    )
    if not plain:
        return None
    if not _start_with_bias(graph, node, chain):
        return None
    weights = _finish(graph, chain, weights, 1)
    # One pointwise convolution for each place of the kernel.
    places = weights.transpose(2, 3, 1, 0).reshape(-1, *weights.shape[1::-1], 1, 1)
    packed = np.concatenate([pack_conv_weights(place) for place in places])
    conv = Convolution(
        into,
        into.channels,
        MapShape(*chain.shape),
        (1, 1),
        (1, 1),
        (1, 1),
        (0, 0),
        1,
        BLOCKED,
        BLOCKED,
        tuple(chain.steps),
        upscale=strides,
    )

    def build(layouts: list[str], out: str) -> tuple[str, dict[str, object]]:
        return "Convolution", {"spec": _with_layouts(conv, layouts[0], out)}

    name = f"{node.input[1]}/packed"
    return Item(node, chain, [node.input[0]], False, LAYOUTS_OF_MAPS, build, [(name, packed)])


def find_matrix(graph: Graph, node: onnx.NodeProto) -> Item | None:
    """MatMul or Gemm; with a constant second factor of rank 2, or of two varying matrices."""
    chain = start_chain(graph, node, channel_axis=1)
    first, matrix = graph.shape(node.input[0]), graph.constants.get(node.input[1])
    if chain is None or first is None:
        return None
    if matrix is None:
        return find_matrix_product(graph, node, chain)
    if matrix.dtype != np.float32:
        return None
    if matrix.ndim != 2 or len(first) < 2 or not graph.is_float(node.input[0]):
        return None
    if node.op_type == "Gemm":
        if graph.attribute(node, "transA", 0):
            return None
        matrix = matrix.T if graph.attribute(node, "transB", 0) else matrix
        matrix = matrix * np.float32(graph.attribute(node, "alpha", 1.0))
        if not _start_with_gemm_bias(graph, node, chain):
            return None
    matrix = _finish(graph, chain, matrix, 1)
    rows, (length, outputs) = math.prod(first[:-1]), matrix.shape
    if rows == 1:
        product = gemv.Product(length, outputs, tuple(chain.steps))
        products = gemv.Products((product,), (chain.shape,))
        name = f"{node.input[1]}/packed"
        packed = gemv.pack_matrix(matrix)
        return flat_item(node, chain, "Dense", products, [(name, packed)])
    conv = Convolution(
        MapShape(1, length, 1, rows),
        length,
        MapShape(1, outputs, 1, rows),
        (1, 1),
        (1, 1),
        (1, 1),
        (0, 0),
        1,
        NHWC,
        NHWC,
        tuple(chain.steps),
    )
    packed = pack_conv_weights(matrix.T[:, :, None, None])
    return flat_item(node, chain, "Convolution", conv, [(f"{node.input[1]}/packed", packed)])


def find_matrix_product(graph: Graph, node: onnx.NodeProto, chain: Chain) -> Item | None:
    """MatMul of two varying matrices, or of as many pairs as the leading axes say."""
    first, second = (graph.shape(name) for name in node.input[:2])
    if node.op_type != "MatMul" or first is None or second is None or len(second) < 2:
        return None
    if first[:-2] != second[:-2] or second[-1] % LANES or first[-2] == 1:
        return None
    if not (graph.is_float(node.input[0]) and graph.is_float(node.input[1])):
        return None
    follow(graph, chain)
    batch, rows = math.prod(first[:-2]), first[-2]
    conv = Convolution(
        MapShape(batch, first[-1], 1, rows),
        first[-1],
        MapShape(batch, second[-1], 1, rows),
        (1, 1),
        (1, 1),
        (1, 1),
        (0, 0),
        1,
        NHWC,
        NHWC,
        tuple(chain.steps),
        matrix=True,
    )
    return flat_item(node, chain, "Convolution", conv)


def flat_item(
    node: onnx.NodeProto,
    chain: Chain,
    operator: str,
    spec: object,
    weights: Sequence[tuple[str, Array]] = (),
) -> Item:
    """An item on tensors in ONNX's own layout. Without weights all inputs are read."""

    def build(layouts: list[str], out: str) -> tuple[str, dict[str, object]]:
        shape = {} if operator == "Dense" else {"shape": chain.shape}
        return operator, {"spec": spec, **shape}

    reads = [node.input[0]] if weights else list(node.input)
    return Item(node, chain, reads, False, (NCHW,), build, list(weights), is_map=False)


def find_pooling(graph: Graph, node: onnx.NodeProto) -> Item | None:
    """MaxPool, AveragePool, GlobalAveragePool, GlobalMaxPool over two axes."""
    into, chain = map_shape(graph, node.input[0]), start_chain(graph, node)
    if into is None or chain is None or len(chain.shape) != 4:
        return None
    if node.op_type.startswith("Global"):
        kernel, strides = (into.height, into.width), (1, 1)
        pads: tuple[int, ...] = (0, 0, 0, 0)
    else:
        if any(d != 1 for d in graph.attribute(node, "dilations", ())):
            return None
        window = windows(
            (into.height, into.width),
            graph.attribute(node, "kernel_shape"),
            graph.attribute(node, "strides"),
            None,
            graph.attribute(node, "pads"),
            graph.attribute(node, "auto_pad", "NOTSET"),
            graph.attribute(node, "ceil_mode", 0),
        )
        kernel, strides = _pair(window.kernel), _pair(window.strides)
        pads = (*window.before, *window.after)
    follow(graph, chain)
    pool = Pooling(
        "max" if "Max" in node.op_type else "average",
        into,
        MapShape(*chain.shape),
        kernel,
        strides,
        pads,
        bool(graph.attribute(node, "count_include_pad", 0)),
        tuple(chain.steps),
    )

    def build(layouts: list[str], out: str) -> tuple[str, dict[str, object]]:
        return "Pool", {"spec": pool}

    return Item(node, chain, [node.input[0]], True, (BLOCKED,), build)


def find_elementwise(graph: Graph, node: onnx.NodeProto, start: str) -> Item | None:
    """Elementwise nodes on the map `start` that no kernel before them could take."""
    shape = graph.shape(start)
    if shape is None or len(shape) != 4 or len(node.output) != 1:
        return None
    chain = Chain(start, shape, 3)
    if not take(graph, chain, node):
        return None
    chain.output = node.output[0]
    follow(graph, chain)

    def build(layouts: list[str], out: str) -> tuple[str, dict[str, object]]:
        spec = Elementwise(MapShape(*shape).stored(out), out, tuple(chain.steps))
        return "Elementwise", {"spec": spec}

    return Item(node, chain, [start], True, (BLOCKED,), build)


def _groups_fit(into: int, out: int, groups: int) -> bool:
    if groups == 1 or groups == into == out:
        return True
    return into // groups % LANES == 0 and out // groups % LANES == 0


def _start_with_bias(graph: Graph, node: onnx.NodeProto, chain: Chain) -> bool:
    """Take a constant bias; False when it is not constant."""
    if len(node.input) > 2 and node.input[2]:
        if node.input[2] not in graph.constants:
            return False
        chain.add_channel("add", graph.constants[node.input[2]])
    return True


def _start_with_gemm_bias(graph: Graph, node: onnx.NodeProto, chain: Chain) -> bool:
    if len(node.input) < 3 or not node.input[2]:
        return True
    bias = graph.constants.get(node.input[2])
    if bias is None or bias.size not in (1, chain.channel_count):
        return False
    if bias.size > 1 and bias.shape[-1] != chain.channel_count:
        return False
    values = np.broadcast_to(bias.reshape(-1), (chain.channel_count,))
    chain.add_channel("add", values * np.float32(graph.attribute(node, "beta", 1.0)))
    return True


def _finish(graph: Graph, chain: Chain, weights: Array, out_axis: int) -> Array:
    """Follow the chain and fold what is linear into the weights; what is left of the bias is the
    chain's first step."""
    follow(graph, chain)
    weights, bias = fold_linear(chain, weights, out_axis)
    if bias is not None:
        steps = [renumbered(step, 1) for step in chain.steps]
        chain.steps[:] = ["add channel 0", *steps]
        chain.channels.insert(0, pad_channels(bias))
    return weights


def _with_layouts(conv: Convolution, into: str, out: str) -> Convolution:
    return dataclasses.replace(conv, in_layout=into, out_layout=out)


def _pair(values: Sequence[int]) -> Pair:
    first, second = values
    return first, second
