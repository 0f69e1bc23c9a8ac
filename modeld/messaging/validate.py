"""Is this message safe to read? Checked before Cap'n Proto sees it.

A reader of Cap'n Proto follows pointers lazily and may meet a bad one deep in the frame loop;
pycapnp even ends the process on some (`total_size`, `as_builder`). So every pointer of a message
from a socket is followed once, here, against the schema: inside its segment, of the kind that the
schema says, reached once. What passes can be read without surprises.

Wire format: capnproto.org/encoding.html. Words are read in the machine's byte order, which is
the format's on every platform this runs on (x86-64, AArch64: little endian).
"""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

import msgschema
from modeld.errors import ModeldError

# A device's messages have a handful of segments; capnp's own reader stops at 512.
MAX_SEGMENTS = 512
MAX_DEPTH = 64

_STRUCT, _LIST, _FAR = 0, 1, 2
_POINTERS, _COMPOSITE = 6, 7
_BITS = (0, 1, 8, 16, 32, 64)  # by element size code

_ELEMENT_CODE = {
    "void": 0,
    "bool": 1,
    "int8": 2,
    "uint8": 2,
    "int16": 3,
    "uint16": 3,
    "enum": 3,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 5,
    "uint64": 5,
    "float64": 5,
}


class MessageError(ModeldError):
    """A message that is not read. `reason` is one word or two, to count by."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Kind:
    """What the schema says stands behind a pointer.

    `form` is "struct", "list" (of numbers, with `code`), "pointers" (list of `element`),
    "composite" (list of structs `element`), "text", "data", or "any" for what nobody here reads.
    """

    __slots__ = ("code", "element", "form", "members")

    def __init__(self, form: str, code: int = 0, element: "Kind | None" = None) -> None:
        self.form = form
        self.code = code
        self.element = element
        self.members: dict[int, Kind] = {}  # of a struct: by pointer index


_ANY = Kind("any")


# By length and by kind of message, which in one segment stands in this place.
_KIND = slice(24, 26)
_MOST_REMEMBERED = 64
_MOST_WORDS = 4096


class Checker:
    """Checks messages and remembers what passed, as the words that the check looked at.

    A sender's messages mostly differ in their numbers only. One of the same length, with the same
    words wherever an earlier pass looked, passes likewise and need not be followed again.
    """

    def __init__(self) -> None:
        self._passed: dict[tuple[int, bytes], tuple[npt.NDArray[np.intp], bytes]] = {}

    def check(self, data: bytes) -> None:
        """Raise MessageError, naming the reason, unless `data` is one sound Event message."""
        key = (len(data), data[_KIND])
        known = self._passed.get(key)
        if known is not None and _words(data, known[0]) == known[1]:
            return
        walk = _Walk(data)
        walk.event()
        if len(walk.looked) > _MOST_WORDS:
            return
        if len(self._passed) >= _MOST_REMEMBERED:
            self._passed.clear()
        places = np.array(walk.looked)
        self._passed[key] = places, _words(data, places)


def _words(data: bytes, places: npt.NDArray[np.intp]) -> bytes:
    return np.frombuffer(data, np.uint64)[places].tobytes()


check_message = Checker().check


class _Walk:
    """One pass over one message: `segments` as (first, end) word, words left.

    `looked` lists the words that the pass has depended on; all others are numbers to it.
    """

    def __init__(self, data: bytes) -> None:
        self.segments = _segments(data)
        self._words = memoryview(data).cast("Q")
        self.looked = list(range(self.segments[0][0]))
        # A tree reaches every word once; a few more are granted to lists of empty structs.
        self.left = len(self._words) + MAX_DEPTH

    def word(self, at: int) -> int:
        self.looked.append(at)
        return self._words[at]

    def event(self) -> None:
        first, end = self.segments[0]
        if first == end:
            raise MessageError("bounds", "message has an empty first segment; the sender is broken")
        tag, segment, target = self.resolve(0, first)
        if tag == 0 or tag & 3 != _STRUCT:
            raise MessageError("type", "message root is no struct; the sender speaks no Event")
        data_words, pointers = (tag >> 32) & 0xFFFF, tag >> 48
        self.reserve(segment, target, data_words + pointers)
        discriminant = (self.word(target + 1) & 0xFFFF) if data_words > 1 else 0
        members = _members()
        if discriminant >= len(members):
            raise MessageError(
                "unknown member",
                f"message carries union member {discriminant}, the schema ends at "
                f"{len(members) - 1}; it is from a newer sender",
            )
        if pointers:
            self.pointer(segment, target + data_words, members[discriminant], 1)
        for at in range(target + data_words + 1, target + data_words + pointers):
            self.pointer(segment, at, _ANY, 1)

    def resolve(self, segment: int, at: int) -> tuple[int, int, int]:
        """The pointer at word `at`, far hops taken: its tag, segment and target word."""
        word = self.word(at)
        if word & 3 != _FAR:
            return word, segment, at + 1 + _offset(word)
        segment, pad = self.landing(word, 2 if word & 4 else 1)
        tag = self.word(pad)
        if not word & 4:
            if tag & 3 == _FAR:
                raise MessageError("bounds", "a far pointer leads to another; the sender is broken")
            return tag, segment, pad + 1 + _offset(tag)
        if tag & 7 != _FAR:
            raise MessageError("bounds", "a double far pointer lands wrongly; the sender is broken")
        segment, target = self.landing(tag, 0)
        return self.word(pad + 1), segment, target

    def landing(self, far: int, words: int) -> tuple[int, int]:
        segment = far >> 32
        if segment >= len(self.segments):
            raise MessageError(
                "bounds",
                f"a pointer leads to segment {segment} of {len(self.segments)}; message is corrupt",
            )
        first, end = self.segments[segment]
        pad = first + ((far >> 3) & 0x1FFFFFFF)
        if pad + words > end:
            raise MessageError("bounds", "a far pointer lands outside its segment; it is corrupt")
        return segment, pad

    def reserve(self, segment: int, target: int, words: int) -> None:
        """Check that [target, target + words) lies in the segment, and spend those words."""
        first, end = self.segments[segment]
        if words and not (first <= target and target + words <= end):
            raise MessageError(
                "bounds",
                f"a pointer claims {words} words where its segment has "
                f"{max(0, end - max(target, first))}; message is corrupt or hostile",
            )
        self.spend(words)

    def spend(self, words: int) -> None:
        self.left -= words
        if self.left < 0:
            raise MessageError("loop", "pointers reach more words than the message has; hostile")

    def pointer(self, segment: int, at: int, kind: Kind, depth: int) -> None:
        if self.word(at) == 0:
            return
        if depth > MAX_DEPTH:
            raise MessageError("loop", f"pointers nest deeper than {MAX_DEPTH}; message is hostile")
        tag, segment, target = self.resolve(segment, at)
        found = tag & 3
        if found == _STRUCT and kind.form in ("struct", "any"):
            data_words, pointers = (tag >> 32) & 0xFFFF, tag >> 48
            self.reserve(segment, target, data_words + pointers)
            self.fields(segment, target + data_words, pointers, kind, depth)
        elif found == _LIST and kind.form != "struct":
            self.list(segment, target, tag, kind, depth)
        else:
            raise _mismatch(kind, ("a struct", "a list", "a far pointer", "a capability")[found])

    def fields(self, segment: int, first: int, pointers: int, kind: Kind, depth: int) -> None:
        members = kind.members
        for index in range(pointers):
            if self.word(first + index):
                self.pointer(segment, first + index, members.get(index, _ANY), depth + 1)

    def list(self, segment: int, target: int, tag: int, kind: Kind, depth: int) -> None:
        code, count = (tag >> 32) & 7, tag >> 35
        if code == _COMPOSITE:
            self.composite(segment, target, count, kind, depth)
            return
        if kind.form != "any" and code != _expected_code(kind):
            raise _mismatch(kind, f"a list of element size {code}")
        if code == _POINTERS:
            self.reserve(segment, target, count)
            element = kind.element or _ANY
            for at in range(target, target + count):
                self.pointer(segment, at, element, depth + 1)
            return
        self.reserve(segment, target, (count * _BITS[code] + 63) // 64)
        if code == 0:
            self.spend(count)
        if kind.form == "text":
            self.text(target, count)

    def composite(self, segment: int, target: int, count: int, kind: Kind, depth: int) -> None:
        if kind.form not in ("composite", "any"):
            raise _mismatch(kind, "a list of structs")
        self.reserve(segment, target, count + 1)
        tag = self.word(target)
        elements, data_words, pointers = (tag >> 2) & 0x3FFFFFFF, (tag >> 32) & 0xFFFF, tag >> 48
        size = data_words + pointers
        if tag & 3 != _STRUCT or elements * size > count:
            raise MessageError(
                "bounds",
                f"a list claims {elements} elements of {size} words in {count}; "
                "message is corrupt or hostile",
            )
        if size == 0:
            self.spend(elements)
        if pointers:
            element = kind.element or _ANY
            for first in range(target + 1, target + 1 + elements * size, size):
                self.fields(segment, first + data_words, pointers, element, depth)

    def text(self, target: int, count: int) -> None:
        end = target + (count + 7) // 8
        self.looked += range(target, end)
        text = self._words[target:end].tobytes()[:count]
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise MessageError("text", f"a text is not UTF-8 ({error.reason})") from None
        if not text.endswith(b"\0"):
            raise MessageError("text", "a text lacks its final zero; the sender is broken")


def _segments(data: bytes) -> list[tuple[int, int]]:
    """The segment table: (first word, end word) of each, in words from the start of `data`."""
    size = len(data)
    if size == 0:
        raise MessageError("empty", "message has no bytes; the sender is broken")
    if size % 8 or size < 8:
        raise MessageError("framing", f"message of {size} bytes is no whole number of words")
    count = int.from_bytes(data[:4], "little") + 1
    if count > MAX_SEGMENTS:
        raise MessageError(
            "framing", f"message claims {count} segments, {MAX_SEGMENTS} are allowed; it is garbage"
        )
    first = (4 + 4 * count + 7) // 8
    table = [int.from_bytes(data[4 * i : 4 * i + 4], "little") for i in range(1, count + 1)]
    wanted = 8 * (first + sum(table))
    if wanted != size:
        reason = "truncated" if wanted > size else "framing"
        raise MessageError(reason, f"message has {size} bytes, its header says {wanted}")
    segments = []
    for words in table:
        segments.append((first, first + words))
        first += words
    return segments


def _offset(word: int) -> int:
    """The signed 30-bit offset of a struct or list pointer, in words."""
    offset = (word >> 2) & 0x3FFFFFFF
    return offset - 0x40000000 if offset & 0x20000000 else offset


def _expected_code(kind: Kind) -> int:
    if kind.form in ("text", "data"):
        return 2
    if kind.form == "pointers":
        return _POINTERS
    return _COMPOSITE if kind.form == "composite" else kind.code


def _mismatch(kind: Kind, found: str) -> MessageError:
    return MessageError("type", f"message has {found} where the schema has a {kind.form}")


@cache
def _members() -> tuple[Kind, ...]:
    """What each member of the Event union points to, by discriminant."""
    schema = msgschema.load().Event.schema
    members = {
        schema.fields[name].proto.discriminantValue: _field_kind(schema.fields[name], {})
        for name in schema.union_fields
    }
    return tuple(members[value] for value in range(len(members)))


def _field_kind(field: Any, known: dict[int, Kind]) -> Kind:
    kind_of_type = field.proto.slot.type
    which = str(kind_of_type.which())
    if which == "struct":
        return _struct_kind(field.schema, known)
    if which == "list":
        return _list_kind(kind_of_type.list.elementType, field.schema, known)
    return Kind(which) if which in ("text", "data") else _ANY


def _list_kind(element: Any, schema: Any, known: dict[int, Kind]) -> Kind:
    which = str(element.which())
    if which in _ELEMENT_CODE:
        return Kind("list", code=_ELEMENT_CODE[which])
    if which == "struct":
        return Kind("composite", element=_struct_kind(schema.elementType, known))
    return Kind("pointers", element=Kind(which) if which in ("text", "data") else _ANY)


def _struct_kind(schema: Any, known: dict[int, Kind]) -> Kind:
    """The kind of a struct; `known` ends the recursion of structs that hold themselves."""
    identity = schema.node.id
    if identity not in known:
        kind = known[identity] = Kind("struct")
        _add_members(kind.members, schema, known)
    return known[identity]


def _add_members(members: dict[int, Kind], schema: Any, known: dict[int, Kind]) -> None:
    for field in schema.fields.values():
        if str(field.proto.which()) == "group":
            _add_members(members, field.schema, known)
        elif str(field.proto.slot.type.which()) in ("text", "data", "list", "struct"):
            members[field.proto.slot.offset] = _field_kind(field, known)
