"""Graph patterns on the ONNX graph before tinygrad sees it: what our own kernels compute becomes
nodes of a private domain, with weights packed and layouts chosen; all else stays as it is."""

from pathlib import Path

import onnx

from compile.fuse import anchors, joins, row_anchors
from compile.fuse.attention import ATTENTION_NODE, combine_attention, find_attention
from compile.fuse.composites import combine
from compile.fuse.copies import combine_copies
from compile.fuse.emit import Emitter, TileChooser
from compile.fuse.graph import Graph
from compile.fuse.items import DOMAIN, Item
from compile.fuse.pads import fold_pads
from compile.fuse.pairs import join_pairs
from compile.fuse.planes import keep_planes
from compile.fuse.recurrent import split_recurrent
from compile.fuse.shared import share_launches
from compile.fuse.slices import fold_slices
from compile.fuse.stacks import STACK_NODE, combine_stacks, find_stack
from compile.fuse.stems import join_stems
from compile.fuse.winograd import filter_squares
from compile.kernels import group_conv
from compile.kernels.layout import NCHW

__all__ = ["DOMAIN", "TileChooser", "fuse"]

_FINDERS = {
    "Conv": anchors.find_convolution,
    "ConvTranspose": anchors.find_transposed,
    "MatMul": anchors.find_matrix,
    "Gemm": anchors.find_matrix,
    "MaxPool": anchors.find_pooling,
    "AveragePool": anchors.find_pooling,
    "GlobalAveragePool": anchors.find_pooling,
    "GlobalMaxPool": anchors.find_pooling,
    "Concat": joins.find_mix,
    "Resize": joins.find_resize,
    "Upsample": joins.find_resize,
    STACK_NODE: find_stack,
    ATTENTION_NODE: find_attention,
    "Softmax": row_anchors.find_softmax,
    "LayerNormalization": row_anchors.find_normalisation,
    "Normalise": row_anchors.find_normalisation,
}

# Maps that are not ours would have to be brought into our layout first.
_ON_MAPS = (joins.find_mix, anchors.find_pooling, joins.find_resize)


def fuse(
    model: onnx.ModelProto,
    tiles: TileChooser,
    base_dir: Path | None = None,
    device_class: str = "cpu",
) -> onnx.ModelProto:
    """The same computation with our kernels in it; all shapes of `model` are numbers.

    External weights are read from `base_dir` and are inside the result. For the class `gpu` there
    are kernels for convolutions and products of matrices, on ONNX's own layout.
    """
    graph = Graph(model, base_dir)
    on_groups = device_class == "gpu"
    combine(graph, normalisations=not on_groups)
    fold_slices(graph)
    fold_pads(graph)
    if not on_groups:
        combine_attention(graph)
        combine_stacks(graph)
        split_recurrent(graph)
    items = find_items(graph, on_groups)
    if not on_groups:
        items = join_pairs(graph, join_stems(graph, items))
        items = filter_squares(keep_planes(items))
    Emitter(graph, items, tiles, on_groups).run()
    if not on_groups:
        combine_copies(graph)
    graph.prune()
    share_launches(graph)
    return graph.to_model([DOMAIN])


def find_items(graph: Graph, on_groups: bool = False) -> list[Item]:
    """Everything that kernels of ours compute, in execution order."""
    items: list[Item] = []
    maps: set[str] = set()
    for node in list(graph.nodes):
        if id(node) in graph.taken:
            continue
        item = _find(graph, node, maps)
        if item is None or (on_groups and not _for_groups(item)):
            continue
        items.append(item)
        graph.taken |= {id(n) for n in item.nodes}
        if item.is_map:
            maps.add(item.chain.output)
    return items


def _for_groups(item: Item) -> bool:
    """Whether the kernel for work-groups can do it."""
    operator, details = item.build([NCHW] * len(item.maps), NCHW)
    return operator == "Convolution" and group_conv.fits(details["spec"])


def _find(graph: Graph, node: onnx.NodeProto, maps: set[str]) -> Item | None:
    finder = _FINDERS.get(node.op_type) if node.domain in ("", "ai.onnx", DOMAIN) else None
    if finder is None:
        start = next((name for name in node.input if name in maps), None)
        return anchors.find_elementwise(graph, node, start) if start else None
    if finder in _ON_MAPS and maps.isdisjoint(joins.maps_read(graph, node)):
        return None
    try:
        return finder(graph, node)
    except ValueError:
        return None  # windows that do not fit: whoever builds the graph reports them
