"""3 x 3 convolutions between kernels of ours that Winograd's filtering makes quicker."""

from collections.abc import Sequence
from dataclasses import replace

from compile.fuse.items import Item
from compile.kernels import winograd
from compile.kernels.layout import BLOCKED, unpack_conv_weights
from compile.kernels.winograd import Winograd


def filter_squares(items: Sequence[Item]) -> list[Item]:
    """The items, with such convolutions computed in squares of 4 x 4 outputs."""
    blocked = {item.chain.output for item in items if item.is_map and BLOCKED in item.writes}
    read = {name for item in items if item.is_map for name in (*item.maps, *item.chain.tensors)}
    done: list[Item] = []
    for item in items:
        spec = _winograd(item)
        if spec is not None and item.maps[0] in blocked and item.chain.output in read:
            item = _with(item, spec)
        done.append(item)
    return done


def _winograd(item: Item) -> Winograd | None:
    """What the item's kernel would be; None when it is no convolution that gains by it."""
    if not item.is_map or BLOCKED not in item.writes:
        return None
    conv = item.convolution("Convolution", BLOCKED, BLOCKED)
    return Winograd(conv) if conv is not None and Winograd(conv).fits else None


def _with(item: Item, spec: Winograd) -> Item:
    (name, packed), conv = item.weights[0], spec.conv
    weights = unpack_conv_weights(packed, (conv.out_map.channels, conv.in_channels, *conv.kernel))

    def build(layouts: list[str], out: str) -> tuple[str, dict[str, object]]:
        return "Winograd", {"spec": spec}

    return replace(
        item,
        needs_blocked=True,
        writes=(BLOCKED,),
        build=build,
        weights=[(name, winograd.pack_weights(weights))],
    )
