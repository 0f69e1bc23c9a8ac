"""A pointwise convolution that only a depthwise one reads becomes one kernel with it where the map
in between is larger than a processor's cache."""

import math
from collections.abc import Sequence
from dataclasses import replace

from compile.fuse.graph import Graph
from compile.fuse.items import Item
from compile.fuse.steps import Chain, renumbered
from compile.kernels import expand
from compile.kernels.conv import Convolution
from compile.kernels.expand import Expansion
from compile.kernels.layout import BLOCKED

# Smaller maps stay in the cache between two launches, of which each has the better tiles.
_LEAST_BYTES = 1 << 20


def join_expansions(graph: Graph, items: Sequence[Item]) -> list[Item]:
    """The items, with such pairs made one, in the place of the second."""
    makers = {item.chain.output: item for item in items}
    joined: dict[int, Item] = {}
    gone: set[int] = set()
    for item in items:
        first = makers.get(item.maps[0]) if item.maps else None
        pair = None if first is None else _joined(graph, first, item)
        if first is not None and pair is not None:
            joined[id(item)] = pair
            gone.add(id(first))
    return [joined.get(id(item), item) for item in items if id(item) not in gone]


def _joined(graph: Graph, first: Item, last: Item) -> Item | None:
    """One item of two; None when they cannot be, or are better off apart."""
    name = first.chain.output
    if name in graph.outputs or len(graph.readers(name)) != 1 or first.chain.tensors:
        return None
    spec = _spec(first, last, BLOCKED)
    if spec is None or not expand.fits(spec):
        return None
    if 4 * math.prod(spec.depthwise.in_map.stored(BLOCKED)) < _LEAST_BYTES:
        return None
    chain = Chain(
        last.chain.output,
        last.chain.shape,
        last.chain.channel_axis,
        channels=[*first.chain.channels, *last.chain.channels],
        tensors=last.chain.tensors,
        nodes=[*first.chain.nodes, *last.nodes],
    )

    def build(layouts: list[str], out: str) -> tuple[str, dict[str, object]]:
        return "Expansion", {"spec": _spec(first, last, layouts[0])}

    weights = [*first.weights, *last.weights]
    return Item(first.anchor, chain, first.maps, False, (BLOCKED,), build, weights)


def _spec(first: Item, last: Item, layout: str) -> Expansion | None:
    kind, details = first.build([layout] * len(first.maps), BLOCKED)
    other, others = last.build([BLOCKED] * len(last.maps), BLOCKED)
    pointwise, depthwise = details["spec"], others["spec"]
    if (kind, other) != ("Convolution", "Depthwise"):
        return None
    if not isinstance(pointwise, Convolution) or not isinstance(depthwise, Convolution):
        return None
    plain = pointwise.groups == 1 and pointwise.pixels is None and not pointwise.matrix
    if not plain or not pointwise.is_pointwise or pointwise.upscale != (1, 1):
        return None
    steps = tuple(renumbered(step, len(first.chain.channels)) for step in depthwise.steps)
    return Expansion(pointwise, replace(depthwise, steps=steps))
