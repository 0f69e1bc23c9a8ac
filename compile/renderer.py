"""tinygrad's OpenCL renderer, with quotients."""

from tinygrad.renderer.cstyle import OpenCLRenderer
from tinygrad.uop.ops import Ops


class QuotientRenderer(OpenCLRenderer):  # type: ignore[misc]
    """Divides once, as ONNX and numpy do.

    Without the entry tinygrad multiplies by the rounded reciprocal, which moves quantised values
    across a tie. A class of its own, because tinygrad's compile workers receive it by name.
    """

    code_for_op = {  # noqa: RUF012 (as in the base class)
        **OpenCLRenderer.code_for_op,
        Ops.FDIV: lambda a, b, dtype: f"({a}/{b})",
    }
