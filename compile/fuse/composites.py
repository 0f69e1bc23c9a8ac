"""Operations that exporters spell out: SiLU, hard swish, GELU, layer normalisation.

Each becomes one node: a step for an epilogue, or a normalisation of rows.
"""

import math
from dataclasses import dataclass, field

import onnx

from compile.fuse.graph import Graph
from compile.fuse.items import DOMAIN
from compile.fuse.steps import STEP_NODE
from compile.graph import node_label
from compile.kernels.layout import LANES

NORMALISE_NODE = "Normalise"
# Constants of float32 models, written as decimals by many hands.
_CLOSE = 1e-4


def combine(graph: Graph, normalisations: bool = True) -> None:
    """Replace every composite that is found."""
    for node in list(graph.nodes):
        # A composite that was found before may have taken the node.
        if node.domain or not _is_there(graph, node):
            continue
        if node.op_type == "Div" and normalisations:
            _combine_normalisation(graph, node)
        if node.op_type in ("Mul", "Div") and _is_there(graph, node):
            _combine_product(graph, node)


def _is_there(graph: Graph, node: onnx.NodeProto) -> bool:
    return graph.maker(node.output[0]) is node


@dataclass
class _Product:
    """A tree of multiplications: constant times factors, and the nodes that make it."""

    constant: float = 1.0
    factors: list[str] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)


def _scalar(graph: Graph, name: str) -> float | None:
    values = graph.constants.get(name)
    return float(values.reshape(())) if values is not None and values.size == 1 else None


def _product(graph: Graph, name: str, result: _Product, top: bool = True) -> _Product:
    node = graph.maker(name)
    inner = node is not None and (top or graph.sole_reader(name) is not None)
    if node is None or not inner or node.domain or node.op_type not in ("Mul", "Div"):
        result.factors.append(name)
        return result
    first, second = (_scalar(graph, n) for n in node.input)
    if node.op_type == "Div":
        if second is None or second == 0:
            result.factors.append(name)
            return result
        result.constant /= second
        result.nodes.append(node)
        return _product(graph, node.input[0], result, False)
    result.nodes.append(node)
    for value, source in zip((first, second), node.input, strict=True):
        if value is None:
            _product(graph, source, result, False)
        else:
            result.constant *= value
    return result


def _combine_product(graph: Graph, node: onnx.NodeProto) -> None:
    product = _product(graph, node.output[0], _Product())
    if len(product.factors) != 2 or product.factors[0] == product.factors[1]:
        return
    for x, gate in (product.factors, product.factors[::-1]):
        found = _gate(graph, x, gate)
        if found is None:
            continue
        step, constant, nodes = found
        if math.isclose(product.constant, constant, rel_tol=_CLOSE):
            _replace(graph, [*nodes, *product.nodes], STEP_NODE, x, node.output[0], step=step)
            return


def _gate(graph: Graph, x: str, gate: str) -> tuple[str, float, list[onnx.NodeProto]] | None:
    """The step that `constant` * x * gate is, for a gate that is computed from x alone."""
    node = graph.maker(gate)
    if node is None or graph.sole_reader(gate) is None or node.domain:
        return None
    if node.op_type == "Sigmoid" and node.input[0] == x:
        return "silu", 1.0, [node]
    if node.op_type == "HardSigmoid" and node.input[0] == x:
        alpha, beta = graph.attribute(node, "alpha", 0.2), graph.attribute(node, "beta", 0.5)
        sixth = math.isclose(alpha, 1 / 6, rel_tol=_CLOSE) and beta == 0.5
        return ("hard_swish", 1.0, [node]) if sixth else None
    if node.op_type == "Clip":
        return _hard_swish_gate(graph, x, node)
    if node.op_type == "Add":
        return _gelu_gate(graph, x, node)
    return None


def _plus(graph: Graph, name: str, constant: float) -> tuple[str, onnx.NodeProto] | None:
    """The other summand and the node, where `name` is a value plus `constant`."""
    node = graph.maker(name)
    if node is None or node.op_type != "Add" or graph.sole_reader(name) is None:
        return None
    for value, other in (node.input, list(node.input)[::-1]):
        if _scalar(graph, value) == constant:
            return other, node
    return None


def _hard_swish_gate(
    graph: Graph, x: str, clip: onnx.NodeProto
) -> tuple[str, float, list[onnx.NodeProto]] | None:
    bounds = [graph.attribute(clip, "min"), graph.attribute(clip, "max")]
    for i, name in enumerate(clip.input[1:]):
        bounds[i] = _scalar(graph, name)
    shifted = _plus(graph, clip.input[0], 3.0)
    if bounds != [0.0, 6.0] or shifted is None or shifted[0] != x:
        return None
    return "hard_swish", 1 / 6, [shifted[1], clip]


def _gelu_gate(
    graph: Graph, x: str, node: onnx.NodeProto
) -> tuple[str, float, list[onnx.NodeProto]] | None:
    """1 + erf(x / √2)."""
    found = _plus(graph, node.output[0], 1.0)
    error = graph.maker(found[0]) if found else None
    if error is None or error.op_type != "Erf" or graph.sole_reader(error.output[0]) is None:
        return None
    inside = _product(graph, error.input[0], _Product(), False)
    if inside.factors != [x] or not math.isclose(inside.constant, 0.5**0.5, rel_tol=_CLOSE):
        return None
    return "gelu", 0.5, [*inside.nodes, error, node]


def _combine_normalisation(graph: Graph, node: onnx.NodeProto) -> None:
    """(x - mean) / sqrt(variance + epsilon) over the last axis."""
    centred, root = graph.maker(node.input[0]), graph.maker(node.input[1])
    if centred is None or root is None or centred.op_type != "Sub" or root.op_type != "Sqrt":
        return
    x = centred.input[0]
    mean = _mean_of(graph, centred.input[1])
    under = graph.maker(root.input[0])
    if mean is None or mean.input[0] != x or under is None or under.op_type != "Add":
        return
    epsilon = next((e for n in under.input if (e := _scalar(graph, n)) is not None), None)
    variance = next((n for n in under.input if _scalar(graph, n) is None), "")
    power = _mean_of(graph, variance)
    square = graph.maker(power.input[0]) if power is not None else None
    if power is None or square is None or epsilon is None:
        return
    other = _squared(graph, square)
    if other is None or other.op_type != "Sub" or list(other.input) != list(centred.input):
        return
    inner = [mean, other, square, power, under, root]
    inner += [centred] if centred is not other else []
    shape = graph.shape(x)
    if shape is None or shape[-1] % LANES or not _closed(graph, inner, node):
        return
    _replace(graph, [*inner, node], NORMALISE_NODE, x, node.output[0], epsilon=repr(epsilon))


def _mean_of(graph: Graph, name: str) -> onnx.NodeProto | None:
    """The ReduceMean over the last axis, kept as an axis, that makes `name`."""
    node = graph.maker(name)
    if node is None or node.op_type != "ReduceMean" or not graph.attribute(node, "keepdims", 1):
        return None
    axes = graph.attribute(node, "axes")
    if len(node.input) > 1 and node.input[1] in graph.constants:
        axes = graph.constants[node.input[1]].reshape(-1).tolist()
    shape = graph.shape(node.input[0])
    last = shape is not None and axes is not None and list(axes) in ([-1], [len(shape) - 1])
    return node if last else None


def _squared(graph: Graph, node: onnx.NodeProto) -> onnx.NodeProto | None:
    """The node whose value is squared by `node`."""
    if node.op_type == "Mul" and node.input[0] == node.input[1]:
        return graph.maker(node.input[0])
    if node.op_type == "Pow" and _scalar(graph, node.input[1]) == 2.0:
        return graph.maker(node.input[0])
    return None


def _closed(graph: Graph, inner: list[onnx.NodeProto], last: onnx.NodeProto) -> bool:
    """Whether nobody but these nodes reads what the inner ones compute."""
    allowed = {id(node) for node in [*inner, last]}
    return all(
        output not in graph.outputs and all(id(r) in allowed for r in graph.readers(output))
        for node in inner
        for output in node.output
    )


def _replace(
    graph: Graph, nodes: list[onnx.NodeProto], operator: str, x: str, out: str, **attributes: str
) -> None:
    if not graph.is_float(x) or not graph.is_float(out):
        return
    ordered = [n for n in graph.nodes if any(n is old for old in nodes)]
    label = "\n".join(node_label(n) for n in ordered)
    new = onnx.helper.make_node(operator, [x], [out], name=label, domain=DOMAIN, **attributes)
    graph.replace(ordered, [new])
