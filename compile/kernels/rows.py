"""Softmax and layer normalisation over the last axis."""

from dataclasses import dataclass

from compile.kernels import epilogue
from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import LANES, ceil_div

_MIN_ELEMENTS = 4096


@dataclass(frozen=True)
class Rows:
    """`count` rows of `length` elements. `kind` is softmax, or normalise with its `epsilon` (a
    decimal) and steps; rows to be normalised are whole blocks of 16."""

    kind: str
    count: int
    length: int
    epsilon: str = "0.0"
    steps: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the kernel can do it."""
        return self.kind == "softmax" or self.length % LANES == 0


def render(rows: Rows) -> Kernel:
    """The kernel for `rows`; parameters are output, input and the steps' operands."""
    span = max(1, min(ceil_div(_MIN_ELEMENTS, rows.length), rows.count // 8))
    name = f"{rows.kind}_{rows.count}_{rows.length}"
    values: dict[str, int | str] = {
        "SOFTMAX": int(rows.kind == "softmax"),
        "ROWS": rows.count,
        "LENGTH": rows.length,
        "EPSILON": epilogue.literal(rows.epsilon),
        "SPAN": span,
    }
    helpers = epilogue.helpers((), ("exponential",)) if rows.kind == "softmax" else ""
    source = helpers + epilogue.render(rows.steps) + defines(values) + template("vectors", "rows")
    return make_kernel(name, source, (ceil_div(rows.count, span), 1, 1))
