"""The operators that the compiler knows, by domain, name and opset."""

from compile.ops import (
    activation,
    attention,
    bits,
    constants,
    control_flow,
    convolution,
    elementwise,
    gather,
    linear,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    resize,
    sampling,
    sequence,
    tinygrad_table,
)
from compile.ops.registry import OpTable, make_table

_FAMILIES = (
    activation.OPS,
    attention.OPS,
    bits.OPS,
    constants.OPS,
    control_flow.OPS,
    convolution.OPS,
    elementwise.OPS,
    gather.OPS,
    linear.OPS,
    movement.OPS,
    normalization.OPS,
    pooling.OPS,
    recurrent.OPS,
    reduction.OPS,
    resize.OPS,
    sampling.OPS,
    sequence.OPS,
)


def build_op_table() -> OpTable:
    """Every operator: ours, then tinygrad's for the names that we do not have."""
    ours = make_table(op for family in _FAMILIES for op in family)
    theirs = make_table(op for op in tinygrad_table.OPS if op.key not in ours)
    return theirs | ours
