"""A camera server: what camerad is to its clients, for replays, tests and new boards."""

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from modeld.cameras.frame import Frame, FrameLayout
from modeld.cameras.visionipc.buffers import PictureBuffer, map_buffers
from modeld.cameras.visionipc.handshake import OLDER_STREAM_LIST, REQUEST, STREAM_LIST, Answer
from modeld.cameras.visionipc.listener import Listener
from modeld.cameras.visionipc.paths import VisionIpcConfig
from modeld.cameras.visionipc.publisher import Publisher
from modeld.cameras.visionipc.records import (
    MAX_BUFFERS,
    BufferRecord,
    Packet,
    pack_records,
)
from modeld.cameras.visionipc.ring import Ring
from modeld.cameras.visionipc.wakeup import wake
from modeld.errors import ModeldError

DEFAULT_BUFFERS = 18  # as many as camerad has for each stream


@dataclass
class _Stream:
    layout: FrameLayout
    answer: Answer
    buffers: tuple[PictureBuffer, ...]
    publisher: Publisher
    next: int = 0


class VisionIpcServer:
    """Serves streams of pictures. Add the streams, `start` it, then `send` frames.

    A buffer is reused after `buffers` frames of its stream, whether it was read or not.
    `wake` is called with the id of each reader's thread when a frame has been announced.
    """

    def __init__(self, config: VisionIpcConfig, wake: Callable[[int], None] = wake) -> None:
        self._config = config
        self._wake = wake
        self._id = secrets.randbits(64)
        self._streams: dict[int, _Stream] = {}
        self._listener: Listener | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def add_stream(
        self, stream: int, layout: FrameLayout, buffers: int = DEFAULT_BUFFERS, length: int = 0
    ) -> None:
        """Make a stream with so many buffers of `length` bytes, at least `layout.bytes`.

        Raises ModeldError for a stream that exists and for impossible numbers.
        """
        if stream in self._streams or not 0 <= stream < STREAM_LIST:
            raise ModeldError(f"stream {stream} exists already or is no stream number")
        if not 0 < buffers <= MAX_BUFFERS:
            raise ModeldError(
                f"{buffers} buffers cannot be sent to a client; 1 to {MAX_BUFFERS} can"
            )
        size = max(length, layout.bytes)
        records = tuple(
            BufferRecord(size, layout, self._id, index, stream) for index in range(buffers)
        )
        descriptors = tuple(_allocate(record) for record in records)
        self._streams[stream] = _Stream(
            layout,
            Answer(pack_records(records), descriptors),
            map_buffers(records, descriptors),
            Publisher(Ring.create(self._config.ring_path(stream)), self._wake),
        )

    def start(self) -> None:
        """Begin to answer clients. Raises ModeldError when another server is running."""
        self._listener = Listener(self._config.socket_path, self._answer)

    def send(self, stream: int, frame: Frame) -> int:
        """Copy a frame into the stream's next buffer and announce it; the buffer's index.

        Raises ModeldError when the frame's layout is not the stream's.
        """
        layout = self._stream(stream).layout
        if frame.layout != layout or frame.data.size < layout.bytes:
            raise ModeldError(
                f"frame {frame.frame_id} has {frame.data.size} bytes in layout {frame.layout}, "
                f"stream {stream} was made for {layout}"
            )
        pixels = self.begin(stream, frame.frame_id)
        np.copyto(pixels, frame.data[: layout.bytes])
        return self.announce(
            stream, frame.frame_id, frame.timestamp_sof, frame.timestamp_eof, frame.valid
        )

    def begin(self, stream: int, frame_id: int) -> npt.NDArray[np.uint8]:
        """The pixels of the stream's next buffer, `layout.bytes` of uint8, to be written over.

        From now on the buffer counts as that of `frame_id`: a reader that still holds its last
        picture then knows in time.
        """
        target = self._stream(stream)
        buffer = target.buffers[target.next]
        buffer.stamp = frame_id
        return buffer.writable

    def announce(
        self, stream: int, frame_id: int, timestamp_sof: int, timestamp_eof: int, valid: bool = True
    ) -> int:
        """Tell the readers that the buffer of the last `begin` is complete; its index.

        Times are nanoseconds of CLOCK_MONOTONIC.
        """
        target = self._stream(stream)
        index = target.next
        target.next = (index + 1) % len(target.buffers)
        packet = Packet(self._id, index, frame_id, timestamp_sof, timestamp_eof, valid)
        target.publisher.send(packet.pack())
        return index

    def reader_count(self, stream: int) -> int:
        """How many clients have registered for a stream."""
        return self._stream(stream).publisher.reader_count()

    def all_read(self, stream: int) -> bool:
        """Whether a stream has readers and each has taken every frame announced."""
        return self._stream(stream).publisher.all_read()

    def close(self) -> None:
        """Stop answering and let go of the buffers; clients keep theirs until they leave."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for stream in self._streams.values():
            stream.publisher.close()
            stream.answer.close()
        self._streams = {}

    def _stream(self, stream: int) -> _Stream:
        if stream not in self._streams:
            raise ModeldError(f"stream {stream} is not served; {sorted(self._streams)} are")
        return self._streams[stream]

    def _answer(self, question: int) -> Answer | None:
        stream = self._streams.get(question)
        if stream is not None:
            return stream.answer
        if question in (STREAM_LIST, OLDER_STREAM_LIST):
            return Answer(b"".join(REQUEST.pack(number) for number in sorted(self._streams)), ())
        return None


def _allocate(record: BufferRecord) -> int:
    fd = os.memfd_create(f"visionbuf_{record.stream}_{record.index}", os.MFD_CLOEXEC)
    os.ftruncate(fd, record.mapped_length)
    return fd
