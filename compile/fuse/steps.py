"""Which elementwise nodes can be done by the kernel before them, and as which epilogue steps."""

from dataclasses import dataclass, field

import numpy as np
import onnx

from compile.fuse.graph import Graph
from compile.graph import node_label
from compile.kernels.layout import Array, pad_channels

# A private node that an earlier pass made out of several: its attribute is the step.
STEP_NODE = "Step"

_UNARY = {
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "HardSwish": "hard_swish",
    "Softplus": "softplus",
    "Mish": "mish",
    "Exp": "exp",
    "Sqrt": "sqrt",
    "Erf": "erf",
    "Neg": "neg",
    "Abs": "abs",
}
_WITH_ALPHA = {"Elu": ("elu", 1.0), "LeakyRelu": ("leaky_relu", 0.01)}
# (operation when the chain's value is the first input, … the second)
_BINARY = {
    "Add": ("add", "add"),
    "Sub": ("sub", "rsub"),
    "Mul": ("mul", "mul"),
    "Div": ("div", None),
    "Min": ("min", "min"),
    "Max": ("max", "max"),
    "PRelu": ("prelu", None),
}


@dataclass
class Chain:
    """A value and the steps that lead from it to `output`; `channel_axis` counts from the end."""

    output: str
    shape: tuple[int, ...]
    channel_axis: int
    steps: list[str] = field(default_factory=list)
    channels: list[Array] = field(default_factory=list)
    tensors: list[str] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    @property
    def channel_count(self) -> int:
        """Channels of the map, or columns of the matrix."""
        return self.shape[-self.channel_axis]

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the nodes, in order."""
        return tuple(node_label(node) for node in self.nodes)

    def add_channel(self, operation: str, values: Array) -> None:
        """Append a step with one value per channel."""
        self.steps.append(f"{operation} channel {len(self.channels)}")
        self.channels.append(pad_channels(values.astype(np.float32).reshape(-1)))


def follow(graph: Graph, chain: Chain) -> Chain:
    """Take every elementwise node that is the only reader of the chain's value."""
    while (node := graph.sole_reader(chain.output)) is not None and take(graph, chain, node):
        chain.nodes.append(node)
        chain.output = node.output[0]
    return chain


def take(graph: Graph, chain: Chain, node: onnx.NodeProto) -> bool:
    """Append what `node` does to the chain's value; False when it cannot be a step."""
    if graph.shape(node.output[0]) != chain.shape or not graph.is_float(node.output[0]):
        return False
    unary = unary_step(graph, node)
    if unary is not None:
        chain.steps.append(unary)
        return True
    if node.op_type == "BatchNormalization" and len(node.output) == 1:
        return _take_batch_norm(graph, chain, node)
    if node.op_type in _BINARY and not node.domain:
        return _take_binary(graph, chain, node)
    return False


def unary_step(graph: Graph, node: onnx.NodeProto) -> str | None:
    """The step of a node with one varying input; None when it is no such node."""
    if node.op_type == STEP_NODE:
        return str(graph.attribute(node, "step"))
    if node.domain:
        return None
    if node.op_type in _UNARY:
        return _UNARY[node.op_type]
    if node.op_type in _WITH_ALPHA:
        name, default = _WITH_ALPHA[node.op_type]
        return f"{name} {graph.attribute(node, 'alpha', default)}"
    if node.op_type == "HardSigmoid":
        alpha, beta = (graph.attribute(node, n, d) for n, d in (("alpha", 0.2), ("beta", 0.5)))
        return f"hard_sigmoid {alpha} {beta}"
    if node.op_type == "Gelu":
        exact = graph.attribute(node, "approximate", "none") == "none"
        return "gelu" if exact else "gelu_tanh"
    return _clip(graph, node) if node.op_type == "Clip" else None


def _clip(graph: Graph, node: onnx.NodeProto) -> str | None:
    bounds = [graph.attribute(node, "min", -np.inf), graph.attribute(node, "max", np.inf)]
    for i, name in enumerate(node.input[1:]):
        if name and name not in graph.constants:
            return None
        if name:
            bounds[i] = float(graph.constants[name].reshape(()))
    return f"clip {bounds[0]} {bounds[1]}"


def _take_batch_norm(graph: Graph, chain: Chain, node: onnx.NodeProto) -> bool:
    """y = (x - mean) / sqrt(variance + epsilon) * scale + bias (ONNX BatchNormalization)."""
    if any(name not in graph.constants for name in node.input[1:]):
        return False
    if len(chain.shape) > 1 and chain.channel_axis != len(chain.shape) - 1:
        return False
    scale, bias, mean, variance = (graph.constants[n].astype(np.float64) for n in node.input[1:])
    factor = scale / np.sqrt(variance + graph.attribute(node, "epsilon", 1e-5))
    chain.add_channel("mul", factor)
    chain.add_channel("add", bias - mean * factor)
    return True


def _take_binary(graph: Graph, chain: Chain, node: onnx.NodeProto) -> bool:
    if len(node.input) != 2 or node.input[0] == node.input[1]:
        return False
    position = list(node.input).index(chain.output)
    operation, other = _BINARY[node.op_type][position], node.input[1 - position]
    if operation is None or not graph.is_float(other):
        return False
    if other not in graph.constants:
        if graph.shape(other) != chain.shape:
            return False
        chain.steps.append(f"{operation} tensor {len(chain.tensors)}")
        chain.tensors.append(other)
        return True
    values = graph.constants[other]
    if values.size == 1:
        chain.steps.append(f"{operation} number {float(values.reshape(()))!r}")
        return True
    per_channel = [1] * len(chain.shape)
    per_channel[-chain.channel_axis] = chain.channel_count
    padded = (1,) * (len(chain.shape) - values.ndim) + values.shape
    if list(padded) != per_channel:
        return False
    chain.add_channel(operation, values)
    return True


def fold_linear(chain: Chain, weights: Array, out_axis: int) -> tuple[Array, Array | None]:
    """Move leading per-channel and number steps into weights and bias (float64 in between).

    Returns the weights and the bias or None; the chain keeps what is left, bias not included.
    """
    count = chain.channel_count
    factor, bias = np.ones(count), np.zeros(count)
    taken = 0
    for step in chain.steps:
        name, *rest = step.split()
        if name not in ("add", "sub", "mul", "div") or rest[0] == "tensor":
            break
        if rest[0] == "channel":
            value = chain.channels[int(rest[1])][:count].astype(np.float64)
        else:
            value = np.full(count, float(rest[1]))
        if name in ("add", "sub"):
            bias = bias + value if name == "add" else bias - value
        else:
            value = value if name == "mul" else 1.0 / value
            factor, bias = factor * value, bias * value
        taken += 1
    _drop_steps(chain, taken)
    shape = [1] * weights.ndim
    shape[out_axis] = count
    scaled = (weights * factor.reshape(shape)).astype(np.float32)
    return scaled, bias.astype(np.float32) if bias.any() else None


def renumbered(step: str, more: int) -> str:
    """The step when `more` per-channel arrays come before those it counts."""
    words = step.split()
    if len(words) == 3 and words[1] == "channel":
        words[2] = str(int(words[2]) + more)
    return " ".join(words)


def _drop_steps(chain: Chain, count: int) -> None:
    """Forget the first steps and number the per-channel arrays of the rest anew."""
    kept: list[str] = []
    arrays: list[Array] = []
    for step in chain.steps[count:]:
        words = step.split()
        if len(words) == 3 and words[1] == "channel":
            words[2], array = str(len(arrays)), chain.channels[int(words[2])]
            arrays.append(array)
        kept.append(" ".join(words))
    chain.steps, chain.channels = kept, arrays
