"""The operators that the compiler knows, by domain, name and opset."""

from compile.ops import (
    activation,
    attention,
    bits,
    constants,
    convolution,
    elementwise,
    gather,
    linear,
    movement,
    normalization,
    pooling,
    reduction,
    resize,
    sampling,
    tinygrad_table,
)
from compile.ops.registry import OpTable, make_table

_FAMILIES = (
    activation.OPS,
    attention.OPS,
    bits.OPS,
    constants.OPS,
    convolution.OPS,
    elementwise.OPS,
    gather.OPS,
    linear.OPS,
    movement.OPS,
    normalization.OPS,
    pooling.OPS,
    reduction.OPS,
    resize.OPS,
    sampling.OPS,
)


def build_op_table() -> OpTable:
    """Every operator: ours, then tinygrad's for the names that we do not have."""
    ours = make_table(op for family in _FAMILIES for op in family)
    theirs = make_table(op for op in tinygrad_table.OPS if op.key not in ours)
    return theirs | ours
