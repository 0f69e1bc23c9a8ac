"""A pointwise and a depthwise convolution, in either order, become one kernel where only the second
reads the first: rows of the map in between stay in a processor's cache."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from compile.fuse.graph import Graph
from compile.fuse.items import Item
from compile.fuse.steps import Chain, renumbered
from compile.kernels.conv import Convolution
from compile.kernels.expand import Expansion
from compile.kernels.layout import BLOCKED
from compile.kernels.separable import Separable

Pair = Expansion | Separable


def join_pairs(graph: Graph, items: Sequence[Item]) -> list[Item]:
    """The items, with such pairs made one, in the place of the second."""
    return _join(graph, _join(graph, items, _expansion), _separable)


def _join(
    graph: Graph, items: Sequence[Item], find: Callable[[Item, Item, str], Pair | None]
) -> list[Item]:
    makers = {item.chain.output: item for item in items}
    joined: dict[int, Item] = {}
    gone: set[int] = set()
    for item in items:
        first = makers.get(item.maps[0]) if item.maps else None
        if first is None or id(first) in joined:
            continue
        pair = _joined(graph, first, item, find)
        if pair is not None:
            joined[id(item)] = pair
            gone.add(id(first))
    return [joined.get(id(item), item) for item in items if id(item) not in gone]


def _joined(
    graph: Graph, first: Item, last: Item, find: Callable[[Item, Item, str], Pair | None]
) -> Item | None:
    """One item of two; None when they cannot be, or are better off apart."""
    name = first.chain.output
    if name in graph.outputs or len(graph.readers(name)) != 1 or first.chain.tensors:
        return None
    spec = find(first, last, BLOCKED)
    if spec is None or not spec.fits:
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
        return type(spec).__name__, {"spec": find(first, last, layouts[0])}

    weights = [*first.weights, *last.weights]
    return Item(first.anchor, chain, first.maps, first.needs_blocked, (BLOCKED,), build, weights)


def _expansion(first: Item, last: Item, layout: str) -> Expansion | None:
    pointwise = first.convolution("Convolution", layout, BLOCKED)
    depthwise = last.convolution("Depthwise", BLOCKED, BLOCKED)
    if pointwise is None or depthwise is None or not _is_plain_pointwise(pointwise):
        return None
    return Expansion(pointwise, _after(first, depthwise))


def _separable(first: Item, last: Item, layout: str) -> Separable | None:
    depthwise = first.convolution("Depthwise", layout, BLOCKED)
    pointwise = last.convolution("Convolution", BLOCKED, BLOCKED)
    if depthwise is None or pointwise is None or not _is_plain_pointwise(pointwise):
        return None
    return Separable(depthwise, _after(first, pointwise))


def _is_plain_pointwise(conv: Convolution) -> bool:
    plain = conv.groups == 1 and conv.pixels is None and not conv.matrix
    return plain and conv.is_pointwise and conv.upscale == (1, 1) and not conv.in_offset


def _after(first: Item, conv: Convolution) -> Convolution:
    """With its per-channel operands counted behind those of `first`."""
    more = len(first.chain.channels)
    return replace(conv, steps=tuple(renumbered(step, more) for step in conv.steps))
