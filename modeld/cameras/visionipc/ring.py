"""The file that a publisher and up to 15 readers share: 48 atomic words, then records.

A record is its length (i64), its bytes and padding to 8. Length -1 says that the next record is
at the beginning again. Positions pack a lap count and an offset, `lap << 32 | offset`.
Facts of msgq, whose name for a lap is cycle.
"""

import mmap
import os
import secrets
import struct
import threading
from pathlib import Path

from modeld.cameras.visionipc.atomics import AtomicWords
from modeld.errors import ModeldError

MAX_READERS = 15
DEFAULT_SEGMENT_BYTES = 1 << 20
# The words of the header, by index; the last three are arrays with one word per reader.
READER_COUNT = 0
WRITE_POSITION = 1
WRITER_UID = 2
READ_POSITION = 3
READER_VALID = READ_POSITION + MAX_READERS
READER_UID = READER_VALID + MAX_READERS
_WORDS = READER_UID + MAX_READERS
HEADER_BYTES = 8 * _WORDS

LENGTH = struct.Struct("<q")
WRAP = -1
LOW_32 = 0xFFFF_FFFF


def aligned(count: int) -> int:
    """`count` rounded up to a multiple of 8."""
    return (count + 7) & -8


def packed(lap: int, offset: int) -> int:
    """A position word; laps count modulo 2**32."""
    return (lap & LOW_32) << 32 | offset


def unread_bytes(read: int, written: int, segment: int) -> int | None:
    """Bytes from a read to a write position; None when the writer has passed the reader.

    After a wrap this includes what the writer left unused at the end of the segment.
    """
    read_offset, write_offset = read & LOW_32, written & LOW_32
    laps = ((written >> 32) - (read >> 32)) & LOW_32
    if laps == 0 and read_offset <= write_offset:
        return write_offset - read_offset
    if laps == 1 and write_offset < read_offset <= segment:
        return segment - read_offset + write_offset
    return None


def new_uid() -> int:
    """An identity for the calling thread: a random half, and the id to wake it by."""
    return secrets.randbits(32) << 32 | threading.get_native_id()


class Ring:
    """An open ring. Records go through pread and pwrite on purpose.

    Other programs change the file's length when they open it. A mapping that has become longer
    than its file kills the process that touches it; a read or write call only comes up short.
    """

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd
        self.segment = 0
        self.measure()
        self.words = AtomicWords(mmap.mmap(fd, HEADER_BYTES), _WORDS)

    @classmethod
    def open(cls, path: Path) -> "Ring | None":
        """The ring that is there, at the length that it has; None when there is none yet."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ModeldError(
                f"{path} cannot be opened ({error.strerror}): check its owner"
            ) from error
        # Another opener may be about to give a new file its length.
        if os.fstat(fd).st_size <= HEADER_BYTES:
            os.close(fd)
            return None
        return cls(path, fd)

    @classmethod
    def create(cls, path: Path, segment_bytes: int = DEFAULT_SEGMENT_BYTES) -> "Ring":
        """The ring that is there, at the length that it has, or else a new one with its folder."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o664)
        except OSError as error:
            raise ModeldError(f"{path} cannot be created ({error.strerror})") from error
        if os.fstat(fd).st_size <= HEADER_BYTES:
            os.ftruncate(fd, HEADER_BYTES + segment_bytes)
        return cls(path, fd)

    def measure(self) -> int:
        """Bytes for records, as long as the file is now; kept in `segment`."""
        self.segment = (os.fstat(self._fd).st_size - HEADER_BYTES) & -8
        return self.segment

    def is_current(self) -> bool:
        """Whether the path still leads to this file, and not to a newer one or to none."""
        try:
            return os.path.samestat(self.path.stat(), os.fstat(self._fd))
        except OSError:
            return False

    def read(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes of records; fewer at the end of the file."""
        return os.pread(self._fd, count, HEADER_BYTES + offset)

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes among the records."""
        os.pwrite(self._fd, data, HEADER_BYTES + offset)

    def close(self) -> None:
        """Let go of the file; the mapping goes with the last reference to `words`."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
