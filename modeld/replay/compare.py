"""Comparing two logs of model messages, field by field.

Messages are matched by service and frame id. A field is what the schema calls one, lists of
numbers as a whole: `modelV2.laneLines[1].y`. Fields that tell of time spent are never compared.
"""

import difflib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

import msgschema
from modeld.errors import ModeldError
from modeld.messaging import member_name

SERVICES = ("modelV2", "drivingModelData", "cameraOdometry")
TIMING_FIELDS = frozenset(
    {"logMonoTime", "frameDropPerc", "modelExecutionTime", "gpuExecutionTimeDEPRECATED"}
)


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """How one field differs: `largest` is the largest |a - b|, infinite where no number says it
    (another length, text, presence, or NaN against a number). `frames` counts frames beyond the
    tolerance, which begin at `first_frame`.
    """

    field: str
    largest: float
    largest_frame: int
    first_frame: int
    frames: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome. Frame ids missing on one side are per service, in order."""

    messages: int
    differences: tuple[FieldDifference, ...]
    only_first: Mapping[str, tuple[int, ...]]
    only_second: Mapping[str, tuple[int, ...]]

    @property
    def equal(self) -> bool:
        """Something was compared, nothing differs, nothing is missing."""
        return bool(self.messages) and not (self.differences or self.only_first or self.only_second)


def check_fields(names: Iterable[str]) -> None:
    """Raise ModeldError for a name that would leave out nothing, because no field has it."""
    known = _field_names()
    for name in names:
        plain = re.sub(r"\[\d+\]", "", name)
        if plain not in known:
            near = difflib.get_close_matches(plain, known, n=1)
            hint = f"did you mean {near[0]}?" if near else "write it as modelV2.position.x"
            raise ModeldError(f"no compared message has a field {name}; {hint}")


@cache
def _field_names() -> frozenset[str]:
    """The fields of all compared messages, whole (`modelV2.valid`) and by their last part."""
    event = msgschema.load().Event.schema
    names = {f"{service}.valid" for service in SERVICES}
    for service in SERVICES:
        names.update(_fields_below(event.fields[service].schema, service))
    return frozenset(names | {name.rpartition(".")[2] for name in names})


def _fields_below(struct: Any, path: str) -> Iterator[str]:
    yield path
    for name, field in struct.fields.items():
        below = field.proto.slot.type
        if str(below.which()) == "struct":
            yield from _fields_below(field.schema, f"{path}.{name}")
        elif str(below.which()) == "list" and str(below.list.elementType.which()) == "struct":
            yield from _fields_below(field.schema.elementType, f"{path}.{name}")
        else:
            yield f"{path}.{name}"


Key = tuple[str, int, int]


def compare(
    first: Iterable[Any],
    second: Iterable[Any],
    tolerance: float = 0.0,
    ignore: Collection[str] = (),
) -> Comparison:
    """Compare the model messages of two streams of `Event` readers.

    Numbers a and b agree when |a - b| <= tolerance * max(1, |b|). `ignore` names fields not to
    compare, by their last part (`timestampEof`) or whole (`modelV2.timestampEof`).
    """
    tally = _Tally(tolerance, TIMING_FIELDS | set(ignore))
    missing: tuple[dict[str, list[int]], ...] = ({}, {})
    for (service, frame_id, _), a, b in _pairs(first, second):
        if a is None or b is None:
            missing[a is None].setdefault(service, []).append(frame_id)
        else:
            tally.add(service, frame_id, a, b)
    only_first, only_second = (
        {service: tuple(sorted(frames)) for service, frames in sorted(side.items())}
        for side in missing
    )
    return Comparison(tally.messages, tally.differences(), only_first, only_second)


def _pairs(
    first: Iterable[Any], second: Iterable[Any]
) -> Iterator[tuple[Key, Any | None, Any | None]]:
    """Events of equal key, as soon as both are there; then those that stayed alone."""
    waiting: tuple[dict[Key, Any], ...] = ({}, {})
    for items in zip_longest(_keyed(first), _keyed(second)):
        for side, item in enumerate(items):
            if item is None:
                continue
            key, event = item
            other = waiting[1 - side].pop(key, None)
            if other is None:
                waiting[side][key] = event
            else:
                yield (key, event, other) if side == 0 else (key, other, event)
    yield from ((key, event, None) for key, event in waiting[0].items())
    yield from ((key, None, event) for key, event in waiting[1].items())


def _keyed(events: Iterable[Any]) -> Iterator[tuple[Key, Any]]:
    # A log can hold a frame id twice, when the cameras were restarted: the n-th meets the n-th.
    seen: Counter[tuple[str, int]] = Counter()
    for event in events:
        service = member_name(event)
        if service in SERVICES:
            frame = (service, getattr(event, service).frameId)
            yield (*frame, seen[frame]), event
            seen[frame] += 1


class _Tally:
    """Collects what differs; numbers of one message are compared all at once."""

    def __init__(self, tolerance: float, ignore: Collection[str]) -> None:
        self.messages = 0
        self._tolerance = tolerance
        self._ignore = ignore
        # field -> its frames beyond the tolerance: (difference, frame id)
        self._found: dict[str, list[tuple[float, int]]] = {}

    def add(self, service: str, frame_id: int, a: Any, b: Any) -> None:
        self.messages += 1
        ours, theirs = (dict(self._fields(service, event)) for event in (a, b))
        for field in ours.keys() | theirs.keys():
            difference = self._difference(ours.get(field), theirs.get(field))
            if difference:
                self._found.setdefault(field, []).append((difference, frame_id))

    def differences(self) -> tuple[FieldDifference, ...]:
        """Largest first."""
        found = []
        for field, frames in self._found.items():
            largest, largest_frame = max(frames, key=lambda pair: (pair[0], -pair[1]))
            first_frame = min(frame_id for _, frame_id in frames)
            found.append(FieldDifference(field, largest, largest_frame, first_frame, len(frames)))
        return tuple(sorted(found, key=lambda d: (-d.largest, d.field)))

    def _fields(self, service: str, event: Any) -> Iterator[tuple[str, Any]]:
        yield from self._leaves(event.valid, f"{service}.valid")
        yield from self._leaves(getattr(event, service).to_dict(), service)

    def _leaves(self, value: Any, path: str) -> Iterator[tuple[str, Any]]:
        if path in self._ignore or path.rpartition(".")[2] in self._ignore:
            return
        if isinstance(value, dict):
            for name, item in value.items():
                yield from self._leaves(item, f"{path}.{name}")
        elif isinstance(value, list) and value and isinstance(value[0], dict | list):
            for index, item in enumerate(value):
                yield from self._leaves(item, f"{path}[{index}]")
        else:
            yield path, value

    def _difference(self, a: Any, b: Any) -> float:
        """0 within the tolerance, else the largest difference of the field's numbers."""
        if a == b:  # most fields of most messages; NaN is never equal and goes on
            return 0.0
        left, right = _numbers(a), _numbers(b)
        if left is None or right is None or left.shape != right.shape:
            return math.inf
        both_nan = np.isnan(left) & np.isnan(right)
        same = both_nan | (left == right)  # also equal infinities, whose difference is NaN
        with np.errstate(invalid="ignore"):
            apart = np.where(same, 0.0, np.abs(left - right))
        apart[np.isnan(apart)] = math.inf
        scale = np.where(np.isfinite(right), np.maximum(1.0, np.abs(right)), 0.0)
        within = apart <= self._tolerance * scale
        return 0.0 if within.all() else float(apart.max())


def _numbers(value: Any) -> npt.NDArray[np.float64] | None:
    """A field's numbers as a vector; None for text, data and what is absent."""
    if isinstance(value, list):
        return np.array(value, np.float64) if not any(isinstance(v, str) for v in value) else None
    if isinstance(value, int | float):
        return np.array([value], np.float64)
    return None
