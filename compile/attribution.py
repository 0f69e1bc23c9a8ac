"""Which ONNX nodes a launch computes, found by what it writes.

tinygrad's scheduler forgets where an expression came from. But each launch writes a buffer, and
an intermediate value of the model with the same numbers (in any order) tells which one it is;
between two such values lie the nodes. Kernels of our own carry their node's name and need no
search. For people only: nothing depends on it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx

from compile.capture import Capture
from compile.graph import node_label, node_reads

Array = npt.NDArray[np.generic]
Numbers = npt.NDArray[np.float64]

# How a kernel of ours says which nodes it computes, as the name of its kernel graph.
LABEL_PREFIX = "node:"

# Two implementations of one value differ by rounding, relative to the range of its numbers.
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Attribution:
    """Node labels and multiply-accumulates of each launch, in order."""

    nodes: tuple[tuple[str, ...], ...]
    macs: tuple[int, ...]


def attribute(
    capture: Capture,
    model: onnx.ModelProto,
    values: Mapping[str, Array],
    buffers: Mapping[int, Array],
) -> Attribution:
    """Match `buffers` (contents by storage) with `values` (the model's, by name) of one run."""
    # A sequence, which is a list, lies in no buffer.
    values = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    producers = {name: node for node in model.graph.node for name in node.output if name}
    order = {id(node): position for position, node in enumerate(model.graph.node)}
    by_label = {node_label(node): node for node in model.graph.node}
    shapes = {name: value.shape for name, value in values.items()}
    shapes |= {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in model.graph.input
    }
    shapes |= {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    known = _match(capture, [name for name in producers if name in values], values, buffers)
    labels: list[tuple[str, ...]] = []
    macs: list[int] = []
    done: set[int] = set()
    for launch in capture.launches:
        if launch.label.startswith(LABEL_PREFIX):
            names = launch.label.removeprefix(LABEL_PREFIX).split("\n")
            nodes = [by_label[name] for name in names if name in by_label]
        else:
            read = {n for o in launch.operands if o.access == "read" for n in known[o.storage]}
            written = [known[o.storage] for o in launch.operands if o.access != "read"]
            nodes = _between([n[-1] for n in written if n], read, producers, order)
            names = [node_label(node) for node in nodes]
        labels.append(tuple(names))
        # A node that is computed twice is counted once.
        fresh = [node for node in nodes if id(node) not in done]
        done |= {id(node) for node in fresh}
        macs.append(sum(node_macs(node, shapes) for node in fresh))
    return Attribution(tuple(_inherit(capture, labels)), tuple(macs))


def _match(
    capture: Capture,
    names: Sequence[str],
    values: Mapping[str, Array],
    buffers: Mapping[int, Array],
) -> list[tuple[str, ...]]:
    """For each storage the values with its numbers, in graph order: one and its copies."""
    by_size: dict[int, list[tuple[str, Numbers]]] = {}
    for name in names:
        value = values[name]
        if value.size:
            by_size.setdefault(value.size, []).append((name, _sorted(value)))
    known: list[tuple[str, ...]] = []
    for index, storage in enumerate(capture.storages):
        if storage.role in ("input", "output"):
            known.append((storage.name,))
            continue
        found: list[str] = []
        candidates = by_size.get(buffers[index].size, []) if index in buffers else []
        if candidates:
            numbers = _sorted(buffers[index])
            allowed = _TOLERANCE * float(numbers[-1] - numbers[0])
            found = [n for n, c in candidates if np.all(np.abs(c - numbers) <= allowed)]
        known.append(tuple(found))
    return known


def _sorted(array: Array) -> Numbers:
    return np.sort(array.reshape(-1).astype(np.float64))


def _between(
    targets: Sequence[str],
    read: set[str],
    producers: Mapping[str, onnx.NodeProto],
    order: Mapping[int, int],
) -> list[onnx.NodeProto]:
    """Nodes from the values `read` to `targets`, in graph order."""
    found: dict[int, onnx.NodeProto] = {}
    pending = [name for name in targets if name in producers]
    while pending:
        node = producers[pending.pop()]
        if id(node) in found:
            continue
        found[id(node)] = node
        pending.extend(n for n in node_reads(node) if n in producers and n not in read)
    return sorted(found.values(), key=lambda node: order[id(node)])


def _inherit(capture: Capture, labels: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """A launch that writes no value of the model is part of what its reader computes."""
    reader: dict[int, int] = {}
    result = list(labels)
    for position in reversed(range(len(labels))):
        launch = capture.launches[position]
        if not result[position]:
            written = [o.storage for o in launch.operands if o.access != "read"]
            readers = [reader[storage] for storage in written if storage in reader]
            result[position] = result[readers[0]] if readers else ()
        for operand in launch.operands:
            if operand.access != "write":
                reader[operand.storage] = position
    return result


def node_macs(node: onnx.NodeProto, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Multiply-accumulates of a node by ONNX's definition of it; 0 for kinds not counted."""
    names = [*node.input[:2], *node.output[:1]]
    if len(names) != 3 or any(name not in shapes for name in names):
        return 0
    first, second, output = (shapes[name] for name in names)
    if node.op_type == "Conv":
        return math.prod(output) * math.prod(second[1:])
    if node.op_type == "ConvTranspose":
        return math.prod(first) * math.prod(second[1:])
    if node.op_type == "MatMul":
        return math.prod(output) * first[-1]
    if node.op_type == "Gemm":
        transposed = any(a.name == "transA" and a.i for a in node.attribute)
        return math.prod(output) * first[0 if transposed else 1]
    return 0
