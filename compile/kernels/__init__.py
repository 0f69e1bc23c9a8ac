"""OpenCL C kernels written by hand, and the operators that put them into a graph."""

from compile.kernels.nodes import OPS
from compile.ops.registry import Op


def kernel_ops() -> tuple[Op, ...]:
    """The operators of the private domain, for the op table."""
    return OPS
