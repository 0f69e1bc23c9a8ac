"""What kind of arithmetic a model does."""

import onnx

from compile.graph import all_nodes

_QUANTISING = frozenset({"QuantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"})

# One result for each element, computed where the operand is.
ELEMENTWISE = frozenset(
    {
        "Abs",
        "Add",
        "BatchNormalization",
        "Cast",
        "Ceil",
        "Celu",
        "Clip",
        "Div",
        "Elu",
        "Equal",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "Greater",
        "GreaterOrEqual",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Less",
        "LessOrEqual",
        "Log",
        "Max",
        "Min",
        "Mish",
        "Mul",
        "Neg",
        "PRelu",
        "Pow",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Sub",
        "Swish",
        "Tanh",
        "ThresholdedRelu",
        "Where",
    }
)

# The same elements at other places.
MOVEMENT = frozenset(
    {
        "Concat",
        "DepthToSpace",
        "Dropout",
        "Expand",
        "Flatten",
        "Identity",
        "Pad",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)


def is_quantised(model: onnx.ModelProto) -> bool:
    """True where the model rounds to integers on the way, so that ties can fall either way."""
    return any(
        node.op_type in _QUANTISING or node.op_type.startswith("QLinear")
        for node in all_nodes(model.graph)
    )


def is_half(model: onnx.ModelProto) -> bool:
    """True where the model computes with float16: weights or casts are of that type."""
    half = onnx.TensorProto.FLOAT16
    if any(tensor.data_type == half for tensor in model.graph.initializer):
        return True
    return any(
        attribute.i == half if attribute.name == "to" else attribute.t.data_type == half
        for node in all_nodes(model.graph)
        if node.op_type in ("Cast", "Constant")
        for attribute in node.attribute
    )
