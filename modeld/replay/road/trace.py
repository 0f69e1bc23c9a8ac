"""Writing the painting down as C: arrays whose operations become statements of a kernel.

Tracing the same functions that numpy runs keeps one statement of the picture; equal expressions
are written once. The text is valid in OpenCL C and in CUDA C.
"""

from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np

Operand = Union["Traced", float, int]

_FUNCTIONS = {
    "sqrt": "sqrt", "exp": "exp", "log": "log", "floor": "floor", "rint": "rint",
    "minimum": "fmin", "maximum": "fmax",
}  # fmt: skip


@dataclass(slots=True)
class Statements:
    """Statements so far, one variable each; `known` finds the variable of an expression."""

    lines: list[str] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, expression: str) -> "Traced":
        """A variable of C type `kind` holding `expression`."""
        name = self.known.get(expression)
        if name is None:
            name = f"t{len(self.lines)}"
            self.lines.append(f"const {kind} {name} = {expression};")
            self.known[expression] = name
        return Traced(self, kind, name)

    @property
    def text(self) -> str:
        """All statements, to be put into a function's body."""
        return "\n".join(f"  {line}" for line in self.lines)


def _float(value: float) -> str:
    return f"{float(np.float32(value))!r}f"


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """A value in the kernel: `kind` is "float", "uint" or "int" (a truth value)."""

    statements: Statements
    kind: str
    name: str

    def _other(self, value: Operand) -> str:
        if isinstance(value, Traced):
            return value.name
        return f"{int(value):#x}u" if self.kind == "uint" else _float(value)

    def _operation(self, sign: str, other: Operand, kind: str = "", swap: bool = False) -> "Traced":
        left, right = self.name, self._other(other)
        if swap:
            left, right = right, left
        return self.statements.add(kind or self.kind, f"({left} {sign} {right})")

    def __add__(self, other: Operand) -> "Traced":
        return self._operation("+", other)

    def __radd__(self, other: Operand) -> "Traced":
        return self._operation("+", other, swap=True)

    def __sub__(self, other: Operand) -> "Traced":
        return self._operation("-", other)

    def __rsub__(self, other: Operand) -> "Traced":
        return self._operation("-", other, swap=True)

    def __mul__(self, other: Operand) -> "Traced":
        return self._operation("*", other)

    def __rmul__(self, other: Operand) -> "Traced":
        return self._operation("*", other, swap=True)

    def __truediv__(self, other: Operand) -> "Traced":
        return self._operation("/", other)

    def __rtruediv__(self, other: Operand) -> "Traced":
        return self._operation("/", other, swap=True)

    def __neg__(self) -> "Traced":
        return self.statements.add(self.kind, f"(-{self.name})")

    def __lt__(self, other: Operand) -> "Traced":
        return self._operation("<", other, "int")

    def __gt__(self, other: Operand) -> "Traced":
        return self._operation(">", other, "int")

    def __and__(self, other: Operand) -> "Traced":
        return self._operation("&", other)

    def __xor__(self, other: Operand) -> "Traced":
        return self._operation("^", other)

    def __rshift__(self, other: int) -> "Traced":
        return self.statements.add(self.kind, f"({self.name} >> {other})")


class TracedMaths:
    """`maths.Maths` that writes statements."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def _call(self, function: str, *operands: Any) -> Traced:
        names = ", ".join(o.name if isinstance(o, Traced) else _float(o) for o in operands)
        return self._statements.add("float", f"{_FUNCTIONS[function]}({names})")

    def sqrt(self, x: Any) -> Traced:
        """Square root."""
        return self._call("sqrt", x)

    def exp(self, x: Any) -> Traced:
        """e to the power of x."""
        return self._call("exp", x)

    def log(self, x: Any) -> Traced:
        """Natural logarithm."""
        return self._call("log", x)

    def floor(self, x: Any) -> Traced:
        """Largest whole number not above x."""
        return self._call("floor", x)

    def rint(self, x: Any) -> Traced:
        """Nearest whole number, halves to even."""
        return self._call("rint", x)

    def minimum(self, x: Any, y: Any) -> Traced:
        """The smaller of the two."""
        return self._call("minimum", x, y)

    def maximum(self, x: Any, y: Any) -> Traced:
        """The greater of the two."""
        return self._call("maximum", x, y)

    def where(self, mask: Any, x: Any, y: Any) -> Traced:
        """x where the mask is true, y elsewhere."""
        left, right = (o.name if isinstance(o, Traced) else _float(o) for o in (x, y))
        return self._statements.add("float", f"({mask.name} ? {left} : {right})")

    def unsigned(self, x: Any) -> Traced:
        """Whole floats as 32 unsigned bits, through int so that negative ones wrap."""
        return self._statements.add("uint", f"((uint)(int){x.name})")

    def floating(self, x: Any) -> Traced:
        """Float of an unsigned number."""
        return self._statements.add("float", f"((float){x.name})")
