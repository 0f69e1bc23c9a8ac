"""What the fuser found to be done by kernels of its own, before layouts are chosen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import onnx

from compile.fuse.graph import Graph
from compile.fuse.steps import Chain
from compile.graph import node_label
from compile.kernels.conv import Convolution
from compile.kernels.layout import BLOCKED, NCHW, Array, MapShape

DOMAIN = "ai.modeld"


@dataclass
class Item:
    """A kernel to be: the nodes it replaces and the maps it reads.

    `needs_blocked` says that the maps it reads must be blocked (else NCHW will do too), and
    `writes` which layouts it can write. `build(in_layouts, out_layout)` gives the kernel's
    operator name and its description as attribute texts.
    """

    anchor: onnx.NodeProto
    chain: Chain
    maps: list[str]
    needs_blocked: bool
    writes: tuple[str, ...]
    build: Callable[[list[str], str], tuple[str, dict[str, object]]]
    weights: list[tuple[str, Array]] = field(default_factory=list)
    is_map: bool = True
    # Whether it can read blocked maps; None: as it writes them.
    reads_maps: bool | None = None
    # Maps that it reads in ONNX's layout only.
    plain: frozenset[str] = frozenset()
    # Nodes before the anchor whose work it does, too; others may still read what they compute.
    before: Sequence[onnx.NodeProto] = ()

    def reads_blocked(self, name: str) -> bool:
        """Whether it reads the value, and may read it blocked."""
        on_maps = self.is_map if self.reads_maps is None else self.reads_maps
        return on_maps and name in (*self.maps, *self.chain.tensors) and name not in self.plain

    def convolution(self, operator: str, into: str, out: str) -> Convolution | None:
        """What its kernel computes of its one map, between these layouts; None when it has more
        maps, or is another operator."""
        if len(self.maps) != 1:
            return None
        built, details = self.build([into], out)
        spec = details["spec"]
        return spec if built == operator and isinstance(spec, Convolution) else None

    @property
    def nodes(self) -> list[onnx.NodeProto]:
        """All nodes that the kernel replaces."""
        return [self.anchor, *self.chain.nodes]

    @property
    def label(self) -> str:
        """The names of all nodes whose work it does, one a line."""
        return "\n".join(dict.fromkeys(node_label(node) for node in [*self.before, *self.nodes]))


def map_shape(graph: Graph, name: str) -> MapShape | None:
    """The shape of a float32 value of rank 4 without empty axes; None when it is none."""
    shape = graph.shape(name)
    if shape is None or len(shape) != 4 or not graph.is_float(name) or 0 in shape:
        return None
    return MapShape(*shape)


def start_chain(graph: Graph, node: onnx.NodeProto, channel_axis: int = 3) -> Chain | None:
    """A chain from the node's first output; None when its shape is unknown."""
    name = node.output[0]
    shape = graph.shape(name)
    if shape is None or not graph.is_float(name) or 0 in shape or len(node.output) != 1:
        return None
    return Chain(name, shape, channel_axis, nodes=[])


LAYOUTS_OF_MAPS = (BLOCKED, NCHW)
