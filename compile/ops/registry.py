"""What an operator of the op table is: a function over graph values, and what it needs to know.

A value is a `Tensor` (computed on the device on every run), a numpy array (known when the model
is built), a list of those (an ONNX sequence) or None (an input or an optional left out).
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import onnx
from tinygrad import Tensor

from compile.values import Array
from modeld.errors import ModeldError

__all__ = ["Array"]

ONNX_DOMAIN = ""
MICROSOFT_DOMAIN = "com.microsoft"

Value: TypeAlias = Tensor | Array | list[Any] | None
OpKey = tuple[str, str]

# Attributes of long-retired opsets that only steered memory reuse.
IGNORED_ATTRIBUTES = frozenset({"consumed_inputs"})


class UnsupportedNodeError(ModeldError):
    """A node, named in the message, that the compiler has no operator for."""


class UnsupportedUseError(ValueError):
    """A node asks for something that its operator does not do; says what and what to do."""


class UnknownValueError(ValueError):
    """An operator needs an input known when the model is built; `position` says which."""

    def __init__(self, position: int) -> None:
        super().__init__(f"input {position} must be known when the model is built")
        self.position = position


@dataclass(frozen=True)
class Context:
    """What an operator may know of its node besides inputs and attributes.

    `outputs` says for each output of the node whether anything uses it; `shapes` gives the static
    shape the model declares for an output, None where it declares none. `tensor` puts an array on
    the device, once for the whole model, or into the kernels where it is uniform; `stored` always
    gives it memory. `run_subgraph` runs a graph attribute: (graph, its inputs, a label that is
    unique per call) → its outputs.
    """

    label: str
    opset: int
    outputs: tuple[bool, ...]
    shapes: tuple[tuple[int, ...] | None, ...]
    tensor: Callable[[Value], Tensor]
    stored: Callable[[Array], Tensor]
    run_subgraph: Callable[[onnx.GraphProto, list[Value], str], list[Value]]


@dataclass(frozen=True)
class Op:
    """One operator from opset `since` on, until the next entry of the same name.

    `constants` are the input positions that must be known when the model is built; they arrive as
    numpy arrays. `any_value` operators take values as they are, all others get every remaining
    input as a `Tensor`. `context` operators get the node's `Context` by that keyword. `foldable`
    ones may be computed ahead by the onnx evaluator when every input is known.
    """

    name: str
    run: Callable[..., Any]
    since: int = 1
    constants: tuple[int, ...] = ()
    domain: str = ONNX_DOMAIN
    any_value: bool = False
    context: bool = False
    foldable: bool = True

    @property
    def key(self) -> OpKey:
        """Domain and name."""
        return self.domain, self.name

    @cached_property
    def _keywords(self) -> tuple[frozenset[str], bool]:
        parameters = inspect.signature(self.run).parameters.values()
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return frozenset(p.name for p in parameters if p.kind in kinds), takes_any

    def unknown_attributes(self, names: Iterable[str]) -> list[str]:
        """Attributes of a node that this operator would not honour, sorted."""
        known, takes_any = self._keywords
        return [] if takes_any else sorted(set(names) - known - IGNORED_ATTRIBUTES)


OpTable = dict[OpKey, tuple[Op, ...]]


def make_table(ops: Iterable[Op]) -> OpTable:
    """Group operators by domain and name, newest first. Two of one opset are a mistake here."""
    table: OpTable = {}
    for op in ops:
        entries = (*table.get(op.key, ()), op)
        if len({entry.since for entry in entries}) != len(entries):
            raise ValueError(f"operator {op.name} is registered twice for opset {op.since}")
        table[op.key] = tuple(sorted(entries, key=lambda entry: -entry.since))
    return table


def select(table: OpTable, domain: str, name: str, opset: int) -> Op | None:
    """The operator for a node of this opset; None when there is none."""
    domain = ONNX_DOMAIN if domain == "ai.onnx" else domain
    return next((op for op in table.get((domain, name), ()) if op.since <= opset), None)
