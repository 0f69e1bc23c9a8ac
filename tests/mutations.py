"""Manifests that somebody made wrong on purpose: sound JSON of the right types, wrong numbers."""

import copy
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

# A place in a JSON document.
Place = tuple[Any, ...]

NUMBERS = (0, 1, 2, 3, 7, 31, 33, 512, 1023, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 40, 1 << 63)
STRINGS = (
    "",
    "read",
    "write",
    "read_write",
    "float32",
    "object",
    "nan",
    "-1",
    "1e999",
    "../x",
    "\n",
)


def places(document: Any, here: Place = ()) -> Iterator[Place]:
    """Every value in the document but the root."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        yield (*here, key)
        if isinstance(value, dict | list):
            yield from places(value, (*here, key))


def mutated(content: bytes, choices: random.Random, count: int) -> bytes:
    """The manifest after `count` changes, in canonical spelling."""
    document = json.loads(content)
    for _ in range(count):
        _change(document, choices)
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode() + b"\n"


def replaced(content: bytes, changes: Sequence[tuple[Place, Any]]) -> bytes:
    """The manifest with the values at some places replaced; a callable makes new from old."""
    document = json.loads(content)
    for place, value in changes:
        holder = document
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = value(holder[place[-1]]) if callable(value) else value
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode() + b"\n"


def _change(document: dict[str, Any], choices: random.Random) -> None:
    place = choices.choice(list(places(document)))
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    old = holder[place[-1]]
    if isinstance(old, list) and old and choices.random() < 0.7:
        _change_list(old, choices)
    elif isinstance(old, bool) or old is None or choices.random() < 0.1:
        holder[place[-1]] = choices.choice((None, True, [], {}, "", 0, copy.deepcopy(old)))
    elif isinstance(old, int):
        number = choices.choice((*NUMBERS, old - 1, old + 1, 2 * old, old + 512))
        holder[place[-1]] = number if choices.random() < 0.8 else -number
    elif isinstance(old, str):
        # Another name of the document is the more cunning choice.
        texts = [v for p in places(document) if isinstance(v := _at(document, p), str)]
        holder[place[-1]] = choices.choice((*STRINGS, *texts))


def _change_list(values: list[Any], choices: random.Random) -> None:
    index = choices.randrange(len(values))
    match choices.randrange(3):
        case 0:
            del values[index]
        case 1:
            values.append(copy.deepcopy(values[index]))
        case _:
            other = choices.randrange(len(values))
            values[index], values[other] = values[other], values[index]


def _at(document: Any, place: Place) -> Any:
    for key in place:
        document = document[key]
    return document
