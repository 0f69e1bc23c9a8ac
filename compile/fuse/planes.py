"""Chains of convolutions to a few channels stay in ONNX's layout, in which no lane is idle."""

from collections.abc import Sequence
from dataclasses import replace

from compile.fuse.items import Item
from compile.kernels.layout import NCHW
from compile.kernels.planar import Planar


def keep_planes(items: Sequence[Item]) -> list[Item]:
    """The items; those convolutions to a few channels whose neighbours read and write planes too
    have vectors along the rows."""
    blocked = {item.chain.output for item in items if item.is_map}
    kept: list[Item] = []
    for item in items:
        spec = _planar(item)
        if spec is not None and item.maps[0] not in blocked and _read_as_planes(item, items):
            item = _with(item, spec)
            blocked.discard(item.chain.output)
        kept.append(item)
    return kept


def _planar(item: Item) -> Planar | None:
    """What the item's kernel would be; None when it is no convolution of which that is true."""
    if item.needs_blocked or not item.is_map:
        return None
    conv = item.convolution("Convolution", NCHW, NCHW)
    return Planar(conv) if conv is not None and Planar(conv).fits else None


def _read_as_planes(item: Item, items: Sequence[Item]) -> bool:
    """Whether no kernel has to bring what the item writes into blocks of channels first."""
    value = item.chain.output
    readers = [other for other in items if value in (*other.maps, *other.chain.tensors)]
    return all(not other.needs_blocked and value not in other.chain.tensors for other in readers)


def _with(item: Item, spec: Planar) -> Item:
    def build(layouts: list[str], out: str) -> tuple[str, dict[str, object]]:
        return "Planar", {"spec": spec}

    return replace(item, writes=(NCHW,), build=build)
