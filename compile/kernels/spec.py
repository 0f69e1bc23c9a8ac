"""Kernel descriptions as text, so that they travel in an attribute of an ONNX node."""

import dataclasses
import json
import types
import typing
from typing import Any, TypeVar

T = TypeVar("T")


def encode(spec: Any) -> str:
    """A dataclass of numbers, texts, booleans, None, tuples and dataclasses as JSON, sorted."""
    return json.dumps(dataclasses.asdict(spec), sort_keys=True, separators=(",", ":"))


def decode(kind: type[T], text: str) -> T:
    """What `encode` was given, for a text that it made."""
    result: T = _build(kind, json.loads(text))
    return result


def _build(kind: Any, value: Any) -> Any:
    if isinstance(kind, types.UnionType):
        kind = typing.get_args(kind)[0 if value is not None else 1]
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        fields = {name: _build(hints[name], item) for name, item in value.items()}
        return typing.cast(type[Any], kind)(**fields)
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        return tuple(_build(inner, item) for item in value)
    return value
