"""The operators that the compiler knows, by domain, name and opset."""

from compile.ops import (
    activation,
    attention,
    bits,
    constants,
    contributed,
    control_flow,
    convolution,
    elementwise,
    gather,
    learning,
    linear,
    movement,
    nms,
    normalization,
    pooling,
    quantize,
    recurrent,
    reduction,
    resize,
    sampling,
    sequence,
    signal,
)
from compile.ops.registry import OpTable, make_table

_FAMILIES = (
    activation.OPS,
    attention.OPS,
    bits.OPS,
    constants.OPS,
    contributed.OPS,
    control_flow.OPS,
    convolution.OPS,
    elementwise.OPS,
    gather.OPS,
    learning.OPS,
    linear.OPS,
    movement.OPS,
    nms.OPS,
    normalization.OPS,
    pooling.OPS,
    quantize.OPS,
    recurrent.OPS,
    reduction.OPS,
    resize.OPS,
    sampling.OPS,
    sequence.OPS,
    signal.OPS,
)


def build_op_table() -> OpTable:
    """Every operator of the compiler."""
    return make_table(op for family in _FAMILIES for op in family)
