"""GRU and LSTM: one product of all steps' inputs, which `find_matrix` takes, and the steps."""

from collections.abc import Sequence

import numpy as np
import onnx

from compile.fuse.graph import Graph
from compile.fuse.items import DOMAIN
from compile.graph import node_label
from compile.kernels.layout import Array
from compile.kernels.recurrent import GATES, Recurrence, pack_inputs, pack_state
from compile.kernels.spec import encode

_REVERSALS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_ACTIVATIONS = {"GRU": ["sigmoid", "tanh"], "LSTM": ["sigmoid", "tanh", "tanh"]}


def split_recurrent(graph: Graph) -> None:
    """Replace every such node with constant weights and what its page calls defaults."""
    for node in list(graph.nodes):
        recurrence = _recurrence(graph, node) if node.op_type in GATES and not node.domain else None
        if recurrence is not None:
            graph.replace([node], _split(graph, node, recurrence))


def _recurrence(graph: Graph, node: onnx.NodeProto) -> Recurrence | None:
    """What the kernel would do; None when it cannot do it."""
    x, r = graph.shape(node.input[0]), graph.constants.get(node.input[2])
    reverse = _REVERSALS.get(graph.attribute(node, "direction", "forward"))
    known = [name in graph.constants for name in node.input[1:4] if name]
    if x is None or len(x) != 3 or 0 in x or r is None or reverse is None or not all(known):
        return None
    hidden = r.shape[2]
    shape = (len(reverse), x[1], hidden)
    states = [name for name in node.input[5:7] if name]
    activations = [name.decode().lower() for name in graph.attribute(node, "activations", ())]
    plain = (
        graph.is_float(node.input[0])
        and r.shape == (len(reverse), GATES[node.op_type] * hidden, hidden)
        and all(graph.shape(name) == shape and graph.is_float(name) for name in states)
        and activations in ([], _ACTIVATIONS[node.op_type] * len(reverse))
        and not any(graph.attribute(node, name, 0) for name in ("clip", "layout", "input_forget"))
        and not any(node.input[7:])
        and _are_whole(graph, node.input[4:5], x[0])
    )
    linear = node.op_type == "GRU" and bool(graph.attribute(node, "linear_before_reset", 0))
    return Recurrence(node.op_type, *x[:2], hidden, reverse, linear) if plain else None


def _are_whole(graph: Graph, lengths: Sequence[str], steps: int) -> bool:
    """Whether all sequences have all steps."""
    given = [name for name in lengths if name]
    return all(n in graph.constants and bool((graph.constants[n] == steps).all()) for n in given)


def _split(graph: Graph, node: onnx.NodeProto, recurrence: Recurrence) -> list[onnx.NodeProto]:
    name, label = next(filter(None, node.output)), node_label(node)

    def constant(kind: str, values: Array) -> str:
        return graph.add_constant(f"{name}/{kind}", values.astype(np.float32))

    def start(position: int) -> str:
        given = node.input[position] if len(node.input) > position else ""
        return given or constant("zero", np.zeros(recurrence.state_shape))

    w, r = (graph.constants[n] for n in node.input[1:3])
    of_inputs, of_hidden = _biases(graph, node, recurrence)
    matrix = constant("w", np.ascontiguousarray(pack_inputs(w, recurrence.gates).T))
    bias = constant("b", pack_inputs(of_inputs, recurrence.gates))
    columns = (recurrence.steps, recurrence.batch, len(graph.constants[bias]))
    product, summed = (graph.declare(f"{name}/{end}", columns) for end in ("product", "inputs"))
    reads = [summed, constant("r", pack_state(r, recurrence))]
    if recurrence.linear_before_reset:
        reads.append(constant("hidden_bias", pack_inputs(of_hidden, 1)))
    reads += [start(5 + state) for state in range(recurrence.states)]
    make, spec = onnx.helper.make_node, encode(recurrence)
    return [
        make("MatMul", [node.input[0], matrix], [product], name=label),
        make("Add", [product, bias], [summed], name=label),
        make("Recurrent", reads, list(node.output), name=label, domain=DOMAIN, spec=spec),
    ]


def _biases(graph: Graph, node: onnx.NodeProto, recurrence: Recurrence) -> tuple[Array, Array]:
    """(D, G H) that is added to the inputs' products; (D, H) that GRU's reset gate acts upon."""
    columns, hidden = recurrence.gates * recurrence.hidden, recurrence.hidden
    given = graph.constants.get(node.input[3]) if len(node.input) > 3 else None
    if given is None:
        given = np.zeros((len(recurrence.reverse), 2 * columns), np.float32)
    both, of_hidden = given[:, :columns] + given[:, columns:], given[:, -hidden:]
    if recurrence.linear_before_reset:
        both[:, -hidden:] = given[:, columns - hidden : columns]
    return both, of_hidden
