"""First convolutions of several cameras whose channels are joined become one kernel: it writes the
joined map, so that the join costs no copy."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from compile.fuse.graph import Graph
from compile.fuse.items import LAYOUTS_OF_MAPS, Item
from compile.fuse.steps import Chain, renumbered
from compile.kernels.conv import Convolution
from compile.kernels.layout import BLOCKED, LANES, NCHW
from compile.kernels.mix import Mix


def join_stems(graph: Graph, items: Sequence[Item]) -> list[Item]:
    """The items, with such convolutions and their join made one, in the place of the join."""
    makers = {item.chain.output: item for item in items}
    joined: dict[int, Item] = {}
    gone: set[int] = set()
    for item in items:
        stems = [maker for name in item.maps if (maker := makers.get(name)) is not None]
        if len(stems) < 2 or len(stems) != len(item.maps):
            continue
        # What other kernels of ours make may be in either layout.
        if any(name in makers for stem in stems for name in stem.maps):
            continue
        one = _joined(graph, stems, item)
        if one is not None:
            joined[id(item)] = one
            gone |= {id(stem) for stem in stems}
    return [joined.get(id(item), item) for item in items if id(item) not in gone]


def _joined(graph: Graph, stems: list[Item], join: Item) -> Item | None:
    """One item of all; None when they differ in more than their weights, or others read them."""
    names = [stem.chain.output for stem in stems]
    if any(name in graph.outputs or len(graph.readers(name)) != 1 for name in names):
        return None
    _, details = join.build([BLOCKED] * len(names), BLOCKED)
    specs = [_spec(stem) for stem in stems]
    first, mix = specs[0], details["spec"]
    if first is None or any(spec != first for spec in specs) or not isinstance(mix, Mix):
        return None
    enlarged = any(source.scale != (1, 1) for source in mix.sources)
    if enlarged or first.groups > 1 or first.matrix or first.upscale != (1, 1):
        return None
    if first.out_map.channels % LANES or any(stem.chain.tensors for stem in stems):
        return None
    each = [stem.chain.channels for stem in stems]
    own = [np.concatenate(arrays) for arrays in zip(*each, strict=True)]
    steps = [renumbered(step, len(own)) for step in mix.steps]
    conv = replace(
        first,
        in_channels=len(stems) * first.in_channels,
        out_map=mix.out_map,
        groups=len(stems),
        steps=(*first.steps, *steps),
        apart=True,
    )
    chain = Chain(
        join.chain.output,
        join.chain.shape,
        join.chain.channel_axis,
        channels=[*own, *join.chain.channels],
        tensors=join.chain.tensors,
        nodes=[node for item in [*stems, join] for node in item.nodes][1:],
    )
    (name, _), packed = stems[0].weights[0], [stem.weights[0][1] for stem in stems]

    def build(layouts: list[str], out: str) -> tuple[str, dict[str, object]]:
        return "Convolution", {"spec": replace(conv, out_layout=out)}

    return Item(
        stems[0].anchor,
        chain,
        [map_name for stem in stems for map_name in stem.maps],
        False,
        LAYOUTS_OF_MAPS,
        build,
        [(name, np.concatenate(packed))],
        before=[node for stem in stems for node in stem.before],
    )


def _spec(stem: Item) -> Convolution | None:
    """What the item's kernel computes, if it is a convolution of one map in ONNX's layout."""
    return None if stem.needs_blocked else stem.convolution("Convolution", NCHW, BLOCKED)
