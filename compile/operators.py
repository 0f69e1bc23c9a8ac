"""What kind of arithmetic a model does."""

import onnx

from compile.importer import all_nodes

_QUANTISING = frozenset({"QuantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"})


def is_quantised(model: onnx.ModelProto) -> bool:
    """True where the model rounds to integers on the way, so that ties can fall either way."""
    return any(
        node.op_type in _QUANTISING or node.op_type.startswith("QLinear")
        for node in all_nodes(model.graph)
    )
