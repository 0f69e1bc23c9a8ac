"""Camera servers for these tests: forged in this process, or real ones in another."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from modeld.cameras.frame import Frame, FrameLayout
from modeld.cameras.visionipc.handshake import Answer
from modeld.cameras.visionipc.listener import Listener
from modeld.cameras.visionipc.paths import VisionIpcConfig
from modeld.cameras.visionipc.publisher import Publisher
from modeld.cameras.visionipc.records import BufferRecord, Packet, pack_records
from modeld.cameras.visionipc.ring import (
    LOW_32,
    MAX_READERS,
    READER_COUNT,
    READER_UID,
    READER_VALID,
    Ring,
)

LAYOUT = FrameLayout(width=64, height=48, stride=128, uv_offset=128 * 48)


def picture(frame_id: int, layout: FrameLayout = LAYOUT) -> Frame:
    """A frame whose every byte tells its id."""
    data = np.full(layout.bytes, frame_id % 251, np.uint8)
    return Frame(data, layout, frame_id, frame_id * 50_000_000, frame_id * 50_000_000 + 7)


def shows(frame: Frame | None) -> int:
    """The id of a frame whose pixels are all those of `picture`."""
    assert frame is not None
    assert (frame.data == frame.frame_id % 251).all()
    assert frame.timestamp_eof == frame.timestamp_sof + 7 == frame.frame_id * 50_000_000 + 7
    return frame.frame_id


def evict_all_readers(ring: Ring) -> None:
    """What the sixteenth of msgq's own readers does to the others."""
    ring.words.store(READER_COUNT, 0)
    for index in range(MAX_READERS):
        ring.words.store(READER_VALID + index, 0)
        ring.words.store(READER_UID + index, 0)


def owners(ring: Ring) -> list[int]:
    """Thread ids in the slots counted as taken; 0 where a reader has left."""
    count = min(ring.words.load(READER_COUNT), MAX_READERS)
    return [ring.words.load(READER_UID + index) & LOW_32 for index in range(count)]


class ForgedServer:
    """A server for one stream that can say anything: records, packets, answers."""

    def __init__(self, config: VisionIpcConfig, stream: int, server: int = 77) -> None:
        self.config = config
        self.stream = stream
        self.server = server
        self.records = tuple(
            BufferRecord(LAYOUT.bytes, LAYOUT, server, index, stream) for index in range(3)
        )
        self.descriptors: list[int] = [self.memory() for _ in self.records]
        self.data = pack_records(self.records)
        self.publisher = Publisher(Ring.create(config.ring_path(stream)))
        self._listener: Listener | None = None

    def memory(self, size: int = LAYOUT.bytes + 8) -> int:
        fd = os.memfd_create("forged")
        os.ftruncate(fd, size)
        return fd

    def start(self) -> "ForgedServer":
        self._listener = Listener(self.config.socket_path, self._answer)
        return self

    def announce(self, index: int, frame_id: int, server: int | None = None) -> None:
        self.publisher.send(
            Packet(
                self.server if server is None else server,
                index,
                frame_id,
                frame_id * 50_000_000,
                frame_id * 50_000_000 + 7,
                False,
            ).pack()
        )

    def stamp(self, index: int, frame_id: int) -> None:
        os.pwrite(self.descriptors[index], frame_id.to_bytes(8, "little"), LAYOUT.bytes)

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self.publisher.close()
        for fd in self.descriptors:
            os.close(fd)

    def _answer(self, question: int) -> Answer | None:
        if question != self.stream:
            return None
        return Answer(self.data, tuple(self.descriptors))


class Other:
    """Another process that does what it is told; see camera_process.py."""

    def __init__(self, config: VisionIpcConfig) -> None:
        script = Path(__file__).with_name("camera_process.py")
        arguments = [config.prefix, str(config.socket_folder), str(config.ring_folder)]
        self.process = subprocess.Popen(
            [sys.executable, str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, command: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def close(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()
