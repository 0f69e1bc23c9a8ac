"""Model metadata in the form that driving models carry: a pickled dict, base64.

The bytes are spelled out from the pickle opcodes, so that nothing here can load one.
Format: protocol 4 of the Python object serialisation, as CPython writes it.
"""

import base64
import struct
from collections.abc import Mapping

_PROTOCOL = b"\x80\x04"
_FRAME = b"\x95"
_EMPTY_DICT, _MARK, _SET_ITEMS, _STOP = b"}", b"(", b"u", b"."
_MEMOIZE, _RECALL = b"\x94", b"h"
_NONE, _BYTE, _SHORT, _INT = b"N", b"K", b"M", b"J"
_STRING = b"\x8c"
_GLOBAL, _TUPLE3, _REDUCE = b"\x93", b"\x87", b"R"


def encode_slices(slices: Mapping[str, slice]) -> str:
    """`output_slices` metadata: base64 of the dict name to slice."""
    return base64.b64encode(_pickled(slices)).decode()


def _pickled(slices: Mapping[str, slice]) -> bytes:
    body = _EMPTY_DICT + _MEMOIZE + _MARK
    memo = 1
    constructor = b""
    for name, value in slices.items():
        body += _string(name)
        memo += 1
        if constructor:
            body += constructor
        else:
            body += _string("builtins") + _string("slice") + _GLOBAL + _MEMOIZE
            constructor = _RECALL + bytes([memo + 2])
            memo += 3
        body += b"".join(_integer(part) for part in (value.start, value.stop, value.step))
        body += _TUPLE3 + _MEMOIZE + _REDUCE + _MEMOIZE
        memo += 2
    body += _SET_ITEMS + _STOP
    return _PROTOCOL + _FRAME + struct.pack("<Q", len(body)) + body


def _string(text: str) -> bytes:
    data = text.encode()
    return _STRING + bytes([len(data)]) + data + _MEMOIZE


def _integer(value: int | None) -> bytes:
    if value is None:
        return _NONE
    if 0 <= value < 1 << 8:
        return _BYTE + bytes([value])
    if 0 <= value < 1 << 16:
        return _SHORT + struct.pack("<H", value)
    return _INT + struct.pack("<i", value)
