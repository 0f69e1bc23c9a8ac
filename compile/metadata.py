"""`output_slices` of driving networks: a pickle in base64, read without unpickling.

Only what such a table needs is understood (a dict of str to slice of int or None); every other
opcode is refused by name, so nothing in the file can run.
"""

import base64
import binascii
import pickletools
from collections.abc import Callable
from typing import Any

from modeld.errors import ModeldError
from modeld.manifest import Slice

METADATA_KEY = "output_slices"

_MARK = object()
_SLICE = object()
_SLICE_NAMES = ("builtins slice", "__builtin__ slice")


def read_output_slices(text: str, length: int) -> tuple[Slice, ...]:
    """Decode the metadata value `text` for an output vector of `length` elements.

    Negative and open ends are resolved. Raises ModeldError naming what is not allowed.
    """
    try:
        content = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise _refuse(f"is not base64 ({error})") from None
    table = _load(content)
    if not isinstance(table, dict):
        raise _refuse(f"holds {type(table).__name__}, expected a table of slices")
    slices = []
    for name, value in table.items():
        if not isinstance(name, str) or not isinstance(value, slice):
            raise _refuse(f"has {name!r}: {value!r}, expected a name and a slice")
        start, stop, step = value.indices(length)
        if step != 1 or not 0 <= start < stop <= length:
            raise _refuse(f"gives {name} the range {value}, outside of {length} elements")
        slices.append(Slice(name, start, stop))
    return tuple(sorted(slices, key=lambda s: (s.start, s.stop, s.name)))


def _load(content: bytes) -> Any:
    """Run the pickle program on a stack that can only hold dict, str, int, None and slice."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    try:
        for opcode, argument, _ in pickletools.genops(content):
            if opcode.name == "STOP":
                (result,) = stack
                return result
            _step(opcode.name, argument, stack, memo)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise _refuse(f"is damaged ({error})") from None
    raise _refuse("has no end")


def _step(name: str, argument: Any, stack: list[Any], memo: dict[int, Any]) -> None:
    if name in _IGNORED:
        return
    if name in _CONSTANTS:
        stack.append(_CONSTANTS[name](argument))
    elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT"):
        memo[len(memo) if argument is None else argument] = stack[-1]
    elif name in ("BINGET", "LONG_BINGET", "GET"):
        stack.append(memo[argument])
    elif name in ("GLOBAL", "STACK_GLOBAL"):
        wanted = argument if name == "GLOBAL" else " ".join(_pop(stack, 2))
        if wanted not in _SLICE_NAMES:
            raise _refuse(f"wants {wanted!r}, only slice is allowed")
        stack.append(_SLICE)
    elif name in _TUPLE_LENGTHS:
        stack.append(tuple(_pop(stack, _TUPLE_LENGTHS[name])))
    elif name == "TUPLE":
        stack.append(tuple(_pop_mark(stack)))
    elif name == "REDUCE":
        function, arguments = _pop(stack, 2)
        if function is not _SLICE or not all(a is None or type(a) is int for a in arguments):
            raise _refuse("builds something that is no slice of integers")
        stack.append(slice(*arguments))
    elif name == "DICT":
        items = _pop_mark(stack)
        stack.append(dict(zip(items[::2], items[1::2], strict=True)))
    elif name in ("SETITEMS", "SETITEM"):
        items = _pop_mark(stack) if name == "SETITEMS" else _pop(stack, 2)
        stack[-1].update(zip(items[::2], items[1::2], strict=True))
    else:
        raise _refuse(f"uses the instruction {name}, which is not allowed")


_LITERALS = (
    *("BINUNICODE", "SHORT_BINUNICODE", "UNICODE"),
    *("BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1"),
)
_IGNORED = frozenset({"PROTO", "FRAME"})
_TUPLE_LENGTHS = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_CONSTANTS: dict[str, Callable[[Any], Any]] = {
    "MARK": lambda _: _MARK,
    "NONE": lambda _: None,
    "EMPTY_DICT": lambda _: {},
} | {name: lambda argument: argument for name in _LITERALS}


def _pop(stack: list[Any], count: int) -> list[Any]:
    if len(stack) < count:
        raise _refuse("is damaged (it takes more than it put)")
    items = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return items


def _pop_mark(stack: list[Any]) -> list[Any]:
    start = max(i for i, item in enumerate(stack) if item is _MARK)
    items = stack[start + 1 :]
    del stack[start:]
    return items


def _refuse(problem: str) -> ModeldError:
    return ModeldError(
        f"metadata {METADATA_KEY} {problem}; export the model with a dict of name to slice"
    )
