"""Log compression as a stream: bzip2, Zstandard or none, told apart by their first bytes.

The package for Zstandard is imported by who compresses with it: most who import this do not.
"""

import bz2
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from modeld.files import ending_of

# The last one is a name without any: a log as it is.
LOG_ENDINGS = (".zst", ".bz2", "")

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_BZIP2_MAGIC = b"BZh"

_READ_BYTES = 1 << 20
# Four bytes of Zstandard can stand for 128 KiB, and an error costs what else came out of its bite:
# small bites keep memory bounded and the loss small. bzip2 bounds its output itself.
_ZSTD_BITE_BYTES = 128
_BZIP2_BITE_BYTES = 4096
# What openpilot's own tools save logs with.
_ZSTD_LEVEL = 10


class DamageError(Exception):
    """The stream cannot be read on from here; all before it was given."""


class Compressor(Protocol):
    """Turns chunks into a stream; what it holds back comes with `flush`."""

    def compress(self, data: bytes, /) -> bytes:
        """The bytes that are ready."""
        ...

    def flush(self) -> bytes:
        """The rest of the stream."""
        ...


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...


def compressor(path: Path) -> Compressor:
    """The compressor that the name's ending asks for. Raises ModeldError where no log has it."""
    ending = ending_of(path, "log", LOG_ENDINGS)
    if ending == ".zst":
        import zstandard

        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compressobj()
    return bz2.BZ2Compressor() if ending == ".bz2" else _Plain()


def decompressed(stream: BinaryIO) -> Iterator[bytes]:
    """The content in chunks of about a megabyte at most.

    Raises DamageError, after everything readable, when the stream breaks or ends early.
    """
    magic = stream.read(len(_ZSTD_MAGIC))
    stream.seek(0)
    if magic == _ZSTD_MAGIC:
        yield from _zstandard(stream)
    elif magic.startswith(_BZIP2_MAGIC):
        yield from _bzip2(stream)
    else:
        while chunk := stream.read(_READ_BYTES):
            yield chunk


class _Plain:
    def compress(self, data: bytes, /) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


def _bzip2(stream: BinaryIO) -> Iterator[bytes]:
    decompressor = bz2.BZ2Decompressor()
    while piece := stream.read(_BZIP2_BITE_BYTES):
        try:
            while piece or not (decompressor.needs_input or decompressor.eof):
                yield decompressor.decompress(piece, _READ_BYTES)
                piece = decompressor.unused_data
                if decompressor.eof and piece:
                    decompressor = bz2.BZ2Decompressor()
        except OSError as error:
            raise DamageError(str(error).lower()) from None
    _check_end(decompressor)


def _zstandard(stream: BinaryIO) -> Iterator[bytes]:
    import zstandard

    context = zstandard.ZstdDecompressor()
    decompressor = context.decompressobj()
    while piece := stream.read(_ZSTD_BITE_BYTES):
        try:
            while piece:
                yield decompressor.decompress(piece)
                piece = decompressor.unused_data
                if piece:
                    decompressor = context.decompressobj()
        except zstandard.ZstdError as error:
            raise DamageError(str(error)) from None
    _check_end(decompressor)


def _check_end(decompressor: _Decompressor) -> None:
    if not decompressor.eof:
        raise DamageError("the compressed stream ends early")
