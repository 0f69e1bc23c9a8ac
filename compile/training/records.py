"""Between frozen dataclasses and JSON, strictly: each field there, of its type, none besides."""

import dataclasses
import json
import types
import typing
from typing import Any, TypeVar

from modeld.errors import ModeldError

T = TypeVar("T")


def to_document(record: Any) -> dict[str, Any]:
    """A dataclass as JSON has it: tables, lists, numbers, strings."""
    return typing.cast(dict[str, Any], json.loads(json.dumps(dataclasses.asdict(record))))


def from_document(kind: type[T], document: Any, label: str) -> T:
    """A dataclass from what JSON or TOML gives; `label` names the document in errors.

    Missing fields take their default where they have one. Raises ModeldError with the field's
    path.
    """
    return typing.cast(T, _decode(kind, document, label))


def _decode(kind: Any, value: Any, path: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, value, path)
    if origin is types.UnionType:
        inner = next(a for a in arguments if a is not types.NoneType)
        return None if value is None else _decode(inner, value, path)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_decode(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if origin is dict and isinstance(value, dict):
        return {key: _decode(arguments[1], item, f"{path}.{key}") for key, item in value.items()}
    # A float written without a point is still one; a bool is an int to isinstance, not here.
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        name = getattr(kind if origin is None else origin, "__name__", str(kind))
        raise ModeldError(f"{path} is {_short(value)}; it must be of type {name}")
    return value


def _decode_dataclass(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise ModeldError(f"{path} is {_short(value)}; it must be a table of fields")
    hints = typing.get_type_hints(kind)
    needed = {
        f.name
        for f in dataclasses.fields(kind)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    if missing := sorted(needed - value.keys()):
        raise ModeldError(f"{path} lacks {', '.join(missing)}; add what is missing")
    if extra := sorted(value.keys() - hints.keys()):
        raise ModeldError(
            f"{path} has unknown {', '.join(extra)}; known are {', '.join(sorted(hints))}"
        )
    return kind(
        **{name: _decode(hints[name], item, f"{path}.{name}") for name, item in value.items()}
    )


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
