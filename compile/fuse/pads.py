"""Zeros that a Pad puts around the maps of a convolution become the convolution's own pads."""

from collections.abc import Sequence

import onnx

from compile.fuse.graph import Graph
from compile.graph import node_label


def fold_pads(graph: Graph) -> None:
    """Rewrite every such convolution; a Pad that others read too stays for them."""
    for node in list(graph.nodes):
        if node.op_type == "Conv" and not node.domain:
            _fold(graph, node)


def _fold(graph: Graph, conv: onnx.NodeProto) -> None:
    pad = graph.maker(conv.input[0])
    if pad is None or pad.op_type != "Pad" or pad.domain:
        return
    more = _zeros_around_maps(graph, pad)
    own = graph.attribute(conv, "pads", (0, 0, 0, 0))
    if more is None or graph.attribute(conv, "auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return
    kept = [a for a in conv.attribute if a.name not in ("pads", "auto_pad")]
    alone = graph.sole_reader(pad.output[0]) is conv
    folded = [pad, conv] if alone else [conv]
    new = onnx.helper.make_node(
        "Conv",
        [pad.input[0], *conv.input[1:]],
        list(conv.output),
        name="\n".join(node_label(node) for node in folded),
        pads=[a + b for a, b in zip(own, more, strict=True)],
    )
    new.attribute.extend(kept)
    graph.replace(folded, [new])


def _zeros_around_maps(graph: Graph, pad: onnx.NodeProto) -> Sequence[int] | None:
    """Top, left, bottom, right; None when it does anything else, or cannot be known."""
    shape = graph.shape(pad.input[0])
    if shape is None or len(shape) != 4 or graph.attribute(pad, "mode", "constant") != "constant":
        return None
    pads, value, axes = (_operand(graph, pad, place) for place in (1, 2, 3))
    if pads is None or value is None or axes is None:
        return None
    # Before opset 11 they are attributes.
    pads = pads or graph.attribute(pad, "pads", ())
    value = value or [graph.attribute(pad, "value", 0.0)]
    axes = [axis % 4 for axis in axes] or [0, 1, 2, 3]
    count = len(axes)
    if len(pads) != 2 * count:
        return None
    before, after = (dict(zip(axes, side, strict=True)) for side in (pads[:count], pads[count:]))
    around = [side.get(axis, 0) for side in (before, after) for axis in range(4)]
    if value != [0.0] or min(around) < 0 or any(around[axis] for axis in (0, 1, 4, 5)):
        return None
    return [around[i] for i in (2, 3, 6, 7)]


def _operand(graph: Graph, node: onnx.NodeProto, place: int) -> list[float] | None:
    """The numbers of a constant input, none where it is left out; None when it is no constant."""
    if place >= len(node.input) or not node.input[place]:
        return []
    operand = graph.constants.get(node.input[place])
    return None if operand is None else operand.reshape(-1).tolist()
