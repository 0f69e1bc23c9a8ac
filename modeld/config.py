"""The daemon's configuration: frozen dataclasses, filled from a TOML file.

Every key has a default, every unknown key is an error, so that a misspelt key is found at start.
"""

import dataclasses
import math
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modeld.errors import ModeldError
from modeld.files import read_small
from modeld.realtime import RealtimeConfig


@dataclass(frozen=True, slots=True)
class VehicleConfig:
    """What is assumed of the car until its messages say it; delays in seconds."""

    longitudinal_actuator_delay: float = 0.15
    lateral_delay: float = 0.3
    right_hand_drive: bool = False


@dataclass(frozen=True, slots=True)
class MessagesConfig:
    """Where messages are published and heard; whether modelV2 carries the raw output vector."""

    bind: str = "127.0.0.1"
    connect: str = "127.0.0.1"
    raw_predictions: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """All of it; each field is a table of the TOML file."""

    vehicle: VehicleConfig = field(default_factory=VehicleConfig)
    messages: MessagesConfig = field(default_factory=MessagesConfig)
    realtime: RealtimeConfig = field(default_factory=RealtimeConfig)


def load_config(path: Path) -> Config:
    """Read a TOML file. Raises ModeldError naming the file, the key and what it should be."""
    try:
        document = tomllib.loads(read_small(path, "configuration"))
    except ValueError as error:  # no UTF-8, or no TOML
        raise ModeldError(f"configuration {path} is not TOML ({error}); correct the file") from None
    try:
        return typing.cast(Config, _table(Config, document, ""))
    except _KeyFault as fault:
        raise ModeldError(f"configuration {path}: {fault}") from None


class _KeyFault(Exception):
    """What is wrong with a key."""


def _table(kind: type[Any], values: Any, path: str) -> Any:
    if not isinstance(values, dict):
        raise _KeyFault(f"{path.rstrip('.')} is {values!r}, expected a table")
    hints = typing.get_type_hints(kind)
    for key in values:
        if key not in hints:
            raise _KeyFault(f"unknown key {path}{key}; known: {', '.join(sorted(hints))}")
    return kind(**{key: _value(hints[key], value, path + key) for key, value in values.items()})


def _value(kind: Any, value: Any, path: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return _table(typing.cast(type[Any], kind), value, f"{path}.")
    if isinstance(kind, types.UnionType):  # `X | None`: None is said by leaving the key out
        (kind,) = (part for part in typing.get_args(kind) if part is not types.NoneType)
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise _KeyFault(f"{path} is {value!r}, expected a list")
        return tuple(_value(typing.get_args(kind)[0], item, path) for item in value)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise _KeyFault(f"{path} is {value!r}, expected a {_NAMES[kind]}")
    return value


_NAMES = {
    float: "finite number",
    int: "whole number",
    bool: "boolean (true or false)",
    str: "string",
}
