"""Writing the painting down as C: arrays whose operations become statements of a kernel.

Tracing the same functions that numpy runs keeps one statement of the picture; equal expressions
are written once. The text is valid in OpenCL C and, one pixel at a time, in CUDA C. With more
lanes, values that differ from pixel to pixel are vectors of as many neighbouring pixels, and
those that only depend on the scene stay scalars.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np

Operand = Union["Traced", float, int]

_FUNCTIONS = {
    "sqrt": "sqrt", "exp": "exp", "log": "log", "floor": "floor", "rint": "rint",
    "minimum": "fmin", "maximum": "fmax",
}  # fmt: skip
# Vectors have functions of their own, see `kernel.DIALECTS`: most drivers take them apart.
_VECTOR_FUNCTIONS = _FUNCTIONS | {
    "exp": "vector_exp", "log": "vector_log", "floor": "vector_floor", "rint": "vector_rint",
}  # fmt: skip
# Without the standard's care for NaN, which costs more than the comparison.
_ORDER = {"minimum": "<", "maximum": ">"}


@dataclass(slots=True)
class Statements:
    """Statements so far, one variable each; `known` finds the variable of an expression."""

    lanes: int = 1
    lines: list[str] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, expression: str, varies: bool) -> "Traced":
        """A variable of C type `kind`, a vector if it `varies`, holding `expression`."""
        name = self.known.get(expression)
        if name is None:
            name = f"t{len(self.lines)}"
            self.lines.append(f"const {self.type(kind, varies)} {name} = {expression};")
            self.known[expression] = name
        return Traced(self, kind, name, varies)

    def type(self, kind: str, varies: bool) -> str:
        """The C type of a value."""
        return f"{kind}{self.lanes}" if varies and self.lanes > 1 else kind

    @property
    def text(self) -> str:
        """All statements, to be put into a function's body."""
        return "\n".join(f"  {line}" for line in self.lines)


def _float(value: float) -> str:
    return f"{float(np.float32(value))!r}f"


def _varies(*values: Any) -> bool:
    return any(isinstance(value, Traced) and value.varies for value in values)


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """A value in the kernel: `kind` is "float", "uint" or "int" (a truth value).

    One that `varies` differs between the pixels that are painted together.
    """

    statements: Statements
    kind: str
    name: str
    varies: bool

    def _other(self, value: Operand) -> str:
        if isinstance(value, Traced):
            return value.name
        return f"{int(value):#x}u" if self.kind == "uint" else _float(value)

    def _operation(self, sign: str, other: Operand, kind: str = "", swap: bool = False) -> "Traced":
        left, right = self.name, self._other(other)
        if swap:
            left, right = right, left
        varies = _varies(self, other)
        return self.statements.add(kind or self.kind, f"({left} {sign} {right})", varies)

    def spread(self) -> str:
        """The value as a vector: all bits of a true lane are set, a true scalar is 1."""
        if self.varies or self.statements.lanes == 1:
            return self.name
        sign = "-" if self.kind == "int" else ""
        return f"({self.statements.type(self.kind, True)})({sign}{self.name})"

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
        return self.statements.add(self.kind, f"(-{self.name})", self.varies)

    def __lt__(self, other: Operand) -> "Traced":
        return self._operation("<", other, "int")

    def __gt__(self, other: Operand) -> "Traced":
        return self._operation(">", other, "int")

    def __and__(self, other: Operand) -> "Traced":
        if isinstance(other, Traced) and self.varies != other.varies:
            text = f"({self.spread()} & {other.spread()})"
            return self.statements.add(self.kind, text, True)
        return self._operation("&", other)

    def __xor__(self, other: Operand) -> "Traced":
        return self._operation("^", other)

    def __rshift__(self, other: int) -> "Traced":
        return self.statements.add(self.kind, f"({self.name} >> {other})", self.varies)


class TracedMaths:
    """`maths.Maths` that writes statements."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def _call(self, function: str, *operands: Any) -> Traced:
        varies = _varies(*operands)
        names = [self._named(operand, varies) for operand in operands]
        if varies and self._statements.lanes > 1 and function in _ORDER:
            left, right = names
            text = f"({left} {_ORDER[function]} {right} ? {left} : {right})"
        else:
            wide = varies and self._statements.lanes > 1
            spelled = (_VECTOR_FUNCTIONS if wide else _FUNCTIONS)[function]
            text = f"{spelled}({', '.join(names)})"
        return self._statements.add("float", text, varies)

    def _named(self, operand: Any, varies: bool) -> str:
        """The operand in C, as a vector if it is to vary."""
        if isinstance(operand, Traced):
            return operand.spread() if varies else operand.name
        text = _float(operand)
        return f"({self._statements.type('float', varies)})({text})" if varies else text

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
        varies = _varies(mask, x, y)
        left, right = (self._named(value, varies) for value in (x, y))
        return self._statements.add("float", f"({mask.name} ? {left} : {right})", varies)

    def choose(
        self, mask: Any, chosen: Callable[[], tuple[Any, ...]], otherwise: tuple[Any, ...]
    ) -> tuple[Traced, ...]:
        """`chosen` where the mask is true, worked out only if it is true anywhere."""
        statements = self._statements
        results = []
        kind = statements.type("float", True)
        for value in otherwise:
            name = f"t{len(statements.lines)}"
            statements.lines.append(f"{kind} {name} = {self._named(value, True)};")
            results.append(Traced(statements, "float", name, True))
        whole = mask.varies and statements.lanes > 1
        statements.lines.append(f"if ({f'ANY({mask.name})' if whole else mask.name}) {{")
        # What is written inside is not known outside.
        known = dict(statements.known)
        for result, value in zip(results, chosen(), strict=True):
            text = self._named(value, True)
            text = f"{mask.name} ? {text} : {result.name}" if whole else text
            statements.lines.append(f"{result.name} = {text};")
        statements.lines.append("}")
        statements.known = known
        return tuple(results)

    def unsigned(self, x: Any) -> Traced:
        """Whole floats as 32 unsigned bits, through int so that negative ones wrap."""
        lanes = self._statements.lanes
        wide = x.varies and lanes > 1
        text = f"as_uint{lanes}(convert_int{lanes}({x.name}))" if wide else f"((uint)(int){x.name})"
        return self._statements.add("uint", text, x.varies)

    def floating(self, x: Any) -> Traced:
        """Float of an unsigned number."""
        wide = x.varies and self._statements.lanes > 1
        text = f"convert_float{self._statements.lanes}({x.name})" if wide else f"((float){x.name})"
        return self._statements.add("float", text, x.varies)
