"""Resize and Upsample of a map's rows and columns: bilinear, or the nearest pixel."""

from dataclasses import replace

import numpy as np
import onnx

from compile.fuse.graph import Graph
from compile.fuse.items import LAYOUTS_OF_MAPS, Item, map_shape
from compile.fuse.steps import Chain, follow
from compile.kernels.layout import BLOCKED, NCHW, Array, MapShape
from compile.kernels.resize import Resize, pack_places
from compile.ops.resize import Axis, Options, changed_axes, taps


def find_interpolation(graph: Graph, node: onnx.NodeProto, chain: Chain) -> Item | None:
    """Any such node but cubic and antialiased ones, and those that crop.

    Raises ValueError for attributes and sizes that ONNX does not know.
    """
    into, plans = map_shape(graph, node.input[0]), _plans(graph, node)
    if into is None or plans is None:
        return None
    shape = list(into.stored(NCHW))
    places = {d: (np.arange(shape[d]), np.zeros(shape[d])) for d in (2, 3)}
    for options, axis in plans:
        shape[axis.axis] = axis.out
        places[axis.axis] = _places(axis, options)
    if tuple(shape) != chain.shape or places.keys() != {2, 3}:
        return None
    follow(graph, chain)
    spec = Resize(
        into,
        MapShape(*chain.shape),
        (bool(places[2][1].any()), bool(places[3][1].any())),
        BLOCKED,
        tuple(chain.steps),
    )

    def build(layouts: list[str], out: str) -> tuple[str, dict[str, object]]:
        return "Interpolate", {"spec": replace(spec, out_layout=out)}

    packed = [(f"{node.output[0]}/places", pack_places((places[2], places[3])))]
    return Item(node, chain, [node.input[0]], True, LAYOUTS_OF_MAPS, build, packed)


def _places(axis: Axis, options: Options) -> tuple[Array, Array]:
    """For each output the first of the two inputs it lies between, and the second's weight."""
    positions, weights = taps(axis, options)
    first, second = positions[:, 0], positions[:, -1]
    # Beyond the border both are the outermost.
    return first, np.where(first == second, 0.0, weights[:, -1])


def _plans(graph: Graph, node: onnx.NodeProto) -> list[tuple[Options, Axis]] | None:
    """How each axis that changes does; None when only a run knows, or no kernel of ours can."""
    mode = graph.attribute(node, "mode", "nearest")
    if mode not in ("nearest", "linear", "bilinear"):
        return None
    mode = "nearest" if mode == "nearest" else "linear"
    modern = node.op_type == "Resize" and graph.opset() > 10
    # Scales and sizes, or scales alone.
    names = list(node.input[2:4] if modern else node.input[1:2])
    if any(name and name not in graph.constants for name in names):
        return None
    shape = graph.shape(node.input[0]) or ()
    scales, sizes = [graph.constants.get(name) for name in [*names, "", ""][:2]]
    if not modern:
        scales = scales if names else np.array(graph.attribute(node, "scales", ()))
        axes = changed_axes(shape, scales)
        ways = ["ceil" if axis.scale < 1 else "floor" for axis in axes]
        return [(Options(mode, "asymmetric", w), a) for w, a in zip(ways, axes, strict=True)]
    coordinates = graph.attribute(node, "coordinate_transformation_mode", "half_pixel")
    special = any(graph.attribute(node, name, 0) for name in ("antialias", "exclude_outside"))
    if special or coordinates == "tf_crop_and_resize":
        return None
    policy = graph.attribute(node, "keep_aspect_ratio_policy", "stretch")
    axes = changed_axes(shape, scales, sizes, graph.attribute(node, "axes"), policy)
    nearest = graph.attribute(node, "nearest_mode", "round_prefer_floor")
    return [(Options(mode, coordinates, nearest), axis) for axis in axes]
