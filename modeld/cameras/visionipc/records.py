"""The bytes of VisionIPC: what describes a buffer, and what announces a picture in it.

Facts of msgq's structures VisionBuf and VisionIpcPacket on 64-bit systems. Bytes 0 to 107 of a
VisionBuf are the same in every build since 2022; builds with OpenCL in them (until February
2026) added two pointers, so a record's length tells which it is.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple

from modeld.cameras.frame import FrameLayout
from modeld.errors import ModeldError

RECORD_BYTES = (112, 136)
MAX_BUFFERS = 127  # a server asserts fewer than the 128 descriptors that a client accepts
STAMP = struct.Struct("<Q")  # behind the pixels: id of the frame they show

# length, mapped length, address, stamp address, descriptor, padding, width, height, stride,
# chroma offset, luma address, chroma address, server, index, stream
_RECORD = struct.Struct("<4Qi4x8QI")
_RECORD_TAIL = struct.Struct("<i")
# server, buffer index, frame id, padding, start and end of frame in ns, valid, padding
_PACKET = struct.Struct("<QQI4xQQ?7x")
PACKET_BYTES = _PACKET.size

_MAX_SIDE = 1 << 15
_MAX_LENGTH = 1 << 30


@dataclass(frozen=True, slots=True)
class BufferRecord:
    """One picture buffer as a server describes it; `length` bytes of pixels."""

    length: int
    layout: FrameLayout
    server: int
    index: int
    stream: int

    @property
    def mapped_length(self) -> int:
        """Bytes to map: the pixels and the stamp behind them."""
        return self.length + STAMP.size


class Packet(NamedTuple):
    """Announces the picture in a buffer; times are nanoseconds of CLOCK_MONOTONIC."""

    server: int
    buffer: int
    frame_id: int
    timestamp_sof: int
    timestamp_eof: int
    valid: bool

    def pack(self) -> bytes:
        """The packet's 48 bytes."""
        return _PACKET.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> "Packet":
        """Read 48 bytes; any other number is a struct.error."""
        return cls._make(_PACKET.unpack(data))


def pack_records(records: tuple[BufferRecord, ...]) -> bytes:
    """A server's answer. Addresses are zero: they mean nothing to another process."""
    return b"".join(_pack_record(record) for record in records)


def unpack_records(answer: bytes, descriptors: int) -> tuple[BufferRecord, ...]:
    """Read a server's answer that came with so many file descriptors.

    Raises ModeldError for a wrong number, an unknown layout and impossible sizes.
    """
    if not 0 < descriptors <= MAX_BUFFERS:
        raise ModeldError(
            f"the camera server sent {descriptors} file descriptors with {len(answer)} bytes; "
            f"1 to {MAX_BUFFERS} are possible: restart camerad"
        )
    size, rest = divmod(len(answer), descriptors)
    if rest or size not in RECORD_BYTES:
        raise ModeldError(
            f"the camera server sent {len(answer)} bytes for {descriptors} buffers; known builds "
            f"of msgq send {RECORD_BYTES[0]} or {RECORD_BYTES[1]} each: use such a camerad"
        )
    records = tuple(_unpack_record(answer, size, index) for index in range(descriptors))
    if len({record.server for record in records}) != 1:
        raise ModeldError("the camera server sent buffers of several servers: restart camerad")
    return records


def _pack_record(record: BufferRecord) -> bytes:
    layout = record.layout
    head = _RECORD.pack(
        record.length,
        record.mapped_length,
        0,
        0,
        -1,
        layout.width,
        layout.height,
        layout.stride,
        layout.uv_offset,
        0,
        0,
        record.server,
        record.index,
        record.stream,
    )
    return head + _RECORD_TAIL.pack(0)


def _unpack_record(answer: bytes, size: int, index: int) -> BufferRecord:
    fields = _RECORD.unpack_from(answer, index * size)
    length, mapped = fields[:2]
    record = BufferRecord(length, FrameLayout(*fields[5:9]), *fields[11:14])
    if mapped < record.mapped_length or not _possible(record) or record.index != index:
        layout = record.layout
        raise ModeldError(
            f"the camera server describes buffer {index} as number {record.index} with "
            f"{length} of {mapped} bytes for {layout.width}x{layout.height} pixels, stride "
            f"{layout.stride}, chroma at {layout.uv_offset}, which is impossible for NV12"
        )
    return record


def _possible(record: BufferRecord) -> bool:
    layout = record.layout
    return (
        0 < layout.width <= layout.stride <= _MAX_SIDE
        and 0 < layout.height <= _MAX_SIDE
        and layout.stride * layout.height <= layout.uv_offset
        and layout.bytes <= record.length <= _MAX_LENGTH
    )
