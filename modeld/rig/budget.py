"""Budgets: limits on numbers of a report, in a TOML of the report's own shape.

    [latency_ms.end_to_end]
    p99 = 45.0
    max = 50.0

    [misses]
    total = 0

    [memory]
    growth_mib = 1.0

Every number of a report can be limited by naming it; a report that lacks a limited number fails.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modeld.errors import ModeldError
from modeld.files import read_small


@dataclass(frozen=True, slots=True)
class Violation:
    """A number above its limit; `found` is None when the report has no such number."""

    name: str
    limit: float
    found: float | None

    def __str__(self) -> str:
        found = "not measured" if self.found is None else f"{self.found:g}"
        return f"{self.name} is {found}, budget {self.limit:g}"


def read_budget(path: Path) -> dict[str, float]:
    """Limits by dotted name. Raises ModeldError naming the file and what is wrong in it."""
    try:
        document = tomllib.loads(read_small(path, "budget"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ModeldError(f"budget {path} is not TOML ({error}); correct the file") from None
    limits = {}
    for name, value in _leaves(document):
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise ModeldError(f"budget {path}: {name} is {value!r}, expected a number")
        limits[name] = float(value)
    if not limits:
        raise ModeldError(f"budget {path} has no limits; give at least one, e.g. misses.total = 0")
    return limits


def violations(limits: Mapping[str, float], report: Mapping[str, Any]) -> list[Violation]:
    """The limits that `report` breaks, in the budget's order."""
    numbers = dict(_leaves(report))
    broken = []
    for name, limit in limits.items():
        found = numbers.get(name)
        if isinstance(found, bool) or not isinstance(found, int | float):
            broken.append(Violation(name, limit, None))
        elif not found <= limit:
            broken.append(Violation(name, limit, found))
    return broken


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
