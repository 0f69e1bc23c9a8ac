"""Logs: Events one after the other, as the device's logger writes them (rlog, qlog).

Reading takes constant memory and never more trust than needed: what is damaged is told and left
out, what stands before it is kept. Messages are handed on as the bytes they were, so that what
this schema does not know survives.
"""

import logging
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import capnp

import msgschema
from modeld.errors import ModeldError
from modeld.files import cannot_read, open_atomic, translated_writing
from modeld.messaging.events import TRAVERSAL_LIMIT_WORDS
from modeld.messaging.validate import MAX_SEGMENTS
from modeld.replay.compression import DamageError, compressor, decompressed

_log = logging.getLogger(__name__)

# Messages are cut out of blocks of this size.
_BLOCK_BYTES = 1 << 20
# Ten times the largest queue that any service has; more than that is a damaged header.
_MAX_MESSAGE_BYTES = 100 << 20
# Of the messages that cannot be read so many are named; the others are counted.
_NAMED = 3
# So many in a row are no messages: a disk that lost power leaves zeros.
_MOST_UNREADABLE = 1000


def read_messages(path: Path) -> Iterator[bytes]:
    """Every message of the log, in order, as it stands there.

    A damaged or cut-off end is logged as a warning, and everything before it given. Raises
    ModeldError if the file is empty, cannot be read or does not start like a log.
    """
    for block, ends in _blocks(path):
        start = 0
        for end in ends:
            yield block[start:end]
            start = end


def read_records(path: Path) -> Iterator[tuple[bytes, Any]]:
    """Every message of the log, in order, as its bytes and an Event reader; see `read_messages`.

    Single messages that cannot be read are logged and left out; ModeldError is raised where not one
    can be read. Contents are not checked as a socket's are: in a log that was tampered with,
    reading a field can raise capnp.KjException. Use `decode_event` on what nobody vouches for.
    """
    event = msgschema.load().Event
    unreadable = _Unreadable(path)
    place = 0
    for block, ends in _blocks(path):
        readers = event.read_multiple_bytes(block, TRAVERSAL_LIMIT_WORDS)
        start = 0
        for end in ends:
            try:
                reader = next(readers)
            except capnp.KjException as error:
                if unreadable.add(place + start, error):
                    return
            else:
                unreadable.end_run()
                yield block[start:end], reader
            start = end
        place += len(block)
    unreadable.tell()


class _Unreadable:
    """Counts the messages that are left out, and names the first ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0
        self._run = 0
        self._some_readable = False

    def add(self, place: int, error: Exception) -> bool:
        """Leave out the message at byte `place`; True where there is no use in going on."""
        self._count += 1
        self._run += 1
        if self._count <= _NAMED:
            reason = _first_line(error)
            _log.warning("%s: left out a message at byte %d (%s)", self._path, place, reason)
        if self._run < _MOST_UNREADABLE:
            return False
        self._refuse_without_any()
        _log.warning(
            "%s: %d messages in a row, up to byte %d, cannot be read; what follows is left out",
            *(self._path, self._run, place),
        )
        return True

    def end_run(self) -> None:
        """A message could be read."""
        self._run = 0
        self._some_readable = True

    def tell(self) -> None:
        """At the end of the log."""
        if self._count:
            self._refuse_without_any()
        if self._count > _NAMED:
            _log.warning("%s: left out %d messages in all", self._path, self._count)

    def _refuse_without_any(self) -> None:
        if not self._some_readable:
            raise _no_log(self._path, f"not one of its first {self._count} messages can be read")


def read_events(path: Path) -> Iterator[Any]:
    """Every message of the log, in order, as an Event reader; see `read_records`."""
    for _, event in read_records(path):
        yield event


def event_of(message: bytes) -> Any:
    """The Event of one message that was made here; see `read_records` for any other."""
    return next(iter(msgschema.load().Event.read_multiple_bytes(message, TRAVERSAL_LIMIT_WORDS)))


class LogWriter:
    """Writes a log; compressed as the name's ending says (.zst, .bz2, or not at all).

    To be used in a `with` block; the file appears, whole, when the block ends without an error.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._compressor = compressor(path)
        self._file: BinaryIO | None = None
        self._stack = ExitStack()

    def write(self, event: Any) -> None:
        """Append an Event builder, or the bytes of messages."""
        if self._file is None:
            raise ValueError(f"the log {self._path} is not open; use it in a with block")
        data = event if isinstance(event, bytes) else event.to_bytes()
        with translated_writing(self._path):
            self._file.write(self._compressor.compress(data))

    def __enter__(self) -> Self:
        with translated_writing(self._path):
            self._file = self._stack.enter_context(open_atomic(self._path))
            self._stack.push(self._finish)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with translated_writing(self._path):
            self._stack.__exit__(kind, error, trace)

    def _finish(self, kind: type[BaseException] | None, *_: object) -> None:
        """Complete the stream before its file, which is given up when the block failed."""
        if kind is None and self._file is not None:
            self._file.write(self._compressor.flush())
        self._file = None


def _blocks(path: Path) -> Iterator[tuple[bytes, list[int]]]:
    """Whole messages, about a megabyte at a time, and where each one ends."""
    held = bytearray()
    wanted = _BLOCK_BYTES
    whole = 0
    damage = ""
    with _open(path) as stream:
        chunks = decompressed(stream)
        while not damage:
            try:
                while len(held) < wanted:
                    held += next(chunks)
            except StopIteration:
                damage = "the end"
            except DamageError as error:
                damage = str(error)
            ends, next_bytes = _ends(held)
            if ends:
                block = bytes(held[: ends[-1]])
                del held[: ends[-1]]
                whole += len(block)
                yield block, ends
            if next_bytes > _MAX_MESSAGE_BYTES:
                damage = f"a message claims {next_bytes} bytes"
            wanted = max(_BLOCK_BYTES, next_bytes)
    _tell(path, whole, len(held), damage)


def _tell(path: Path, whole: int, left: int, damage: str) -> None:
    if damage == "the end" and left:
        damage = f"the last message is cut off after {left} bytes"
    if damage == "the end" and whole:
        return
    if damage == "the end":
        raise ModeldError(f"{path} is empty; give an rlog or qlog, raw, .bz2 or .zst")
    if whole == 0:
        raise _no_log(path, damage)
    _log.warning("%s: %s; the %d bytes of messages before are kept", path, damage, whole)


def _no_log(path: Path, why: str) -> ModeldError:
    return ModeldError(f"{path} is no log ({why}); give an rlog or qlog, raw, .bz2 or .zst")


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise cannot_read(path, error) from None


def _ends(data: bytearray) -> tuple[list[int], int]:
    """Where the whole messages in `data` end, and the bytes that the next one needs.

    A header that no message has is reported as needing more than any message may.
    """
    ends: list[int] = []
    at, size = 0, len(data)
    while at + 8 <= size:
        end = at + _message_bytes(data, at)
        if end > size:
            return ends, end - at
        ends.append(end)
        at = end
    return ends, 0


def _message_bytes(data: bytearray, at: int) -> int:
    """The length of the message that starts at `at`; of its header, if that is not whole."""
    more_segments, words = struct.unpack_from("<II", data, at)
    if more_segments == 0:
        return int(8 + 8 * words)
    if more_segments >= MAX_SEGMENTS:
        return _MAX_MESSAGE_BYTES + 1
    header = (4 + 4 * (more_segments + 1) + 7) // 8 * 8
    if at + header > len(data):
        return int(header)
    table = struct.unpack_from(f"<{more_segments + 1}I", data, at + 4)
    return int(header + 8 * sum(table))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
