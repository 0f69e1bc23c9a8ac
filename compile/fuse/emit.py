"""Choice of layouts, and the private nodes that stand for the kernels."""

from collections.abc import Sequence
from typing import Protocol

import onnx

from compile.fuse.graph import Graph
from compile.fuse.items import DOMAIN, Item
from compile.kernels.conv import Convolution, Tile
from compile.kernels.expand import Expansion
from compile.kernels.layout import BLOCKED, LANES, NCHW, MapShape
from compile.kernels.mix import Mix, Source
from compile.kernels.planar import Planar
from compile.kernels.separable import Separable
from compile.kernels.spec import encode
from compile.kernels.winograd import Winograd


class TileChooser(Protocol):
    """Who says which tile a convolution is computed with."""

    def convolution(self, conv: Convolution) -> Tile:
        """For the direct convolution."""
        ...

    def estimated(self, conv: Convolution) -> Tile:
        """For a direct convolution inside another kernel."""
        ...

    def depthwise(self, conv: Convolution) -> Tile:
        """For the depthwise convolution."""
        ...

    def planar(self, conv: Convolution) -> Tile:
        """For the convolution in planes."""
        ...


class Emitter:
    """Replaces the items' nodes in the graph by private ones."""

    def __init__(
        self, graph: Graph, items: Sequence[Item], tiles: TileChooser, on_groups: bool = False
    ) -> None:
        """`on_groups`: with kernels for work-groups, maps in ONNX's own layout."""
        self._graph = graph
        self._on_groups = on_groups
        self._items = items
        self._tiles = tiles
        self._packed: dict[int, str] = {}
        # Values that exist blocked, by name.
        self._blocked: dict[str, str] = {}
        self._layout = {item.chain.output: self._choose(item) for item in items if item.is_map}

    def run(self) -> None:
        """Emit all items, in order."""
        for value, layout in self._layout.items():
            if layout == BLOCKED:
                self._blocked[value] = f"{value}/blocked"
        extra: list[onnx.NodeProto] = []
        for item in self._items:
            new = [*self._item_nodes(item, extra), *extra]
            extra.clear()
            self._graph.replace(item.nodes, new)

    def _choose(self, item: Item) -> str:
        """Blocked where another kernel of ours reads the map."""
        if self._on_groups or BLOCKED not in item.writes:
            return NCHW
        value = item.chain.output
        read = any(other.reads_blocked(value) for other in self._items)
        return BLOCKED if read or NCHW not in item.writes else NCHW

    def _read_plainly(self, value: str) -> bool:
        """Whether anything but kernels on blocked maps reads the value."""
        if value in self._graph.outputs:
            return True
        inside = {id(node): item for item in self._items for node in item.nodes}
        for node in self._graph.readers(value):
            reader = inside.get(id(node))
            if reader is None or not reader.reads_blocked(value):
                return True
            as_tensor = value in reader.chain.tensors
            if as_tensor and self._layout.get(reader.chain.output, NCHW) == NCHW:
                return True
        return False

    def _item_nodes(self, item: Item, extra: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
        value = item.chain.output
        out = self._layout.get(value, NCHW)
        layouts = [self._map_layout(item, name, extra) for name in item.maps]
        operator, details = item.build(layouts, out)
        spec = details.pop("spec")
        inputs = [self._named(n, at) for n, at in zip(item.maps, layouts, strict=True)]
        inputs += [self._constant(name, values) for name, values in item.weights]
        inputs += [
            self._constant(f"{value}/channel{i}", values)
            for i, values in enumerate(item.chain.channels)
        ]
        inputs += [self._operand(name, out, item.is_map, extra) for name in item.chain.tensors]
        target = self._blocked[value] if out == BLOCKED else value
        if self._on_groups:
            operator = "GroupConvolution"
        else:
            details |= self._tile(spec)
        node = onnx.helper.make_node(
            operator, inputs, [target], name=item.label, domain=DOMAIN, spec=encode(spec), **details
        )
        if out != BLOCKED:
            return [node]
        shape = MapShape(*item.chain.shape)
        self._graph.declare(target, shape.stored(BLOCKED))
        if not self._read_plainly(value):
            return [node]
        return [node, self._from_blocked(target, value, shape)]

    def _tile(self, spec: object) -> dict[str, list[int]]:
        """The attribute that says what a kernel keeps in registers, where there is a choice."""
        if isinstance(spec, Expansion):
            wide = self._tiles.convolution(spec.expand)
            pixels = self._tiles.depthwise(spec.depthwise).pixels
            return {"tile": [wide.blocks * wide.pixels, pixels]}
        if isinstance(spec, Separable):
            wide = self._tiles.estimated(spec.pointwise_row)
            pixels = self._tiles.depthwise(spec.depthwise).pixels
            return {"tile": [pixels, wide.blocks, wide.pixels]}
        if isinstance(spec, Winograd):
            wide = self._tiles.estimated(spec.product)
            return {"tile": [wide.blocks, wide.pixels]}
        if isinstance(spec, Planar):
            return {"tile": [self._tiles.planar(spec.conv).pixels // LANES]}
        if not isinstance(spec, Convolution):
            return {}
        if spec.apart:  # each group is tiled as it would be alone
            spec = spec.one_group()
        depthwise = spec.groups == spec.in_channels > 1
        chosen = self._tiles.depthwise(spec) if depthwise else self._tiles.convolution(spec)
        return {"tile": [chosen.blocks, chosen.pixels, chosen.span]}

    def _map_layout(self, item: Item, name: str, extra: list[onnx.NodeProto]) -> str:
        if name in self._blocked and item.reads_blocked(name):
            return BLOCKED
        if not item.is_map or not item.needs_blocked:
            return NCHW
        self._to_blocked(name, extra)
        return BLOCKED

    def _named(self, name: str, layout: str) -> str:
        return self._blocked[name] if layout == BLOCKED else name

    def _operand(self, name: str, out: str, is_map: bool, extra: list[onnx.NodeProto]) -> str:
        if not is_map or out == NCHW:
            return name
        if name not in self._blocked:
            self._to_blocked(name, extra)
        return self._blocked[name]

    def _to_blocked(self, name: str, extra: list[onnx.NodeProto]) -> None:
        shape = MapShape(*(self._graph.shape(name) or ()))
        target = f"{name}/blocked"
        self._graph.declare(target, shape.stored(BLOCKED))
        spec = encode(Mix((Source(shape, NCHW, 0, shape.channels),)))
        extra.append(
            onnx.helper.make_node("Mix", [name], [target], name=target, domain=DOMAIN, spec=spec)
        )
        self._blocked[name] = target

    def _from_blocked(self, blocked: str, name: str, shape: MapShape) -> onnx.NodeProto:
        return onnx.helper.make_node(
            "FromBlocked", [blocked], [name], name=name, domain=DOMAIN, channels=shape.channels
        )

    def _constant(self, name: str, values: object) -> str:
        # Nodes that share weights (one network on two images) share what is packed of them.
        key = id(values)
        if key not in self._packed:
            self._packed[key] = self._graph.add_constant(name, values)  # type: ignore[arg-type]
        return self._packed[key]
