import os
import threading
from pathlib import Path

import numpy as np
import pytest
from camera_bench import LAYOUT, picture

from modeld.cameras.frame import Frame, FrameLayout
from modeld.cameras.visionipc.handshake import Question, unpack_streams
from modeld.cameras.visionipc.paths import VisionIpcConfig
from modeld.cameras.visionipc.records import unpack_records
from modeld.cameras.visionipc.server import DEFAULT_BUFFERS, VisionIpcServer
from modeld.cameras.visionipc.stream import VisionIpcStream
from modeld.errors import ModeldError


def test_buffers_are_described_and_hold_picture_and_stamp(config: VisionIpcConfig) -> None:
    with VisionIpcServer(config) as server:
        server.add_stream(2, LAYOUT, length=10_000)
        server.start()
        server.send(2, picture(1))
        server.send(2, picture(300))
        answer = Question(config.socket_path, 2).poll(10)
        assert answer is not None
        records = unpack_records(answer.data, len(answer.descriptors))
        assert [record.index for record in records] == list(range(DEFAULT_BUFFERS))
        assert {(record.length, record.layout, record.stream) for record in records} == {
            (10_000, LAYOUT, 2)
        }
        assert len({record.server for record in records}) == 1
        memory = os.pread(answer.descriptors[1], 20_000, 0)
        assert len(memory) == 10_008
        assert memory[: LAYOUT.bytes] == bytes([300 % 251]) * LAYOUT.bytes
        assert memory[10_000:] == (300).to_bytes(8, "little")
        answer.close()


def test_streams_are_listed_in_both_ways(config: VisionIpcConfig) -> None:
    with VisionIpcServer(config) as server:
        for stream in (2, 0, 77):
            server.add_stream(stream, LAYOUT)
        server.start()
        for question in (0xFFFFFFFF, 4):
            answer = Question(config.socket_path, question).poll(10)
            assert answer is not None
            assert unpack_streams(answer) == {0, 2, 77}


def test_two_servers_never_have_the_same_id(tmp_path: Path) -> None:
    found = set()
    for prefix in ("a", "b", "c"):
        config = VisionIpcConfig(prefix=prefix, socket_folder=tmp_path, ring_folder=tmp_path)
        with VisionIpcServer(config) as server:
            server.add_stream(0, LAYOUT, 1)
            server.start()
            answer = Question(config.socket_path, 0).poll(10)
            assert answer is not None
            found.add(unpack_records(answer.data, 1)[0].server)
            answer.close()
    assert len(found) == 3


def test_a_longer_frame_is_cut_to_its_layout(config: VisionIpcConfig) -> None:
    with VisionIpcServer(config) as server:
        server.add_stream(0, LAYOUT)
        server.start()
        stream = VisionIpcStream(config, 0, False)
        stream.connect(10)
        data = np.arange(LAYOUT.bytes + 100, dtype=np.uint32).astype(np.uint8)
        server.send(0, Frame(data, LAYOUT, 1, 2, 3))
        received = stream.receive(10)
        assert received is not None
        assert np.array_equal(received.data, data[: LAYOUT.bytes])
        stream.close()


def test_frames_that_do_not_fit_are_refused(config: VisionIpcConfig) -> None:
    other = FrameLayout(64, 48, 64, 64 * 48)
    with VisionIpcServer(config) as server:
        server.add_stream(0, LAYOUT)
        for frame in (
            picture(5, other),
            Frame(np.zeros(LAYOUT.bytes - 1, np.uint8), LAYOUT, 5, 0, 0),
        ):
            with pytest.raises(ModeldError, match=r"frame 5 has .* bytes in layout .* made for"):
                server.send(0, frame)
        with pytest.raises(ModeldError, match=r"stream 2 is not served; \[0\] are"):
            server.send(2, picture(1))


@pytest.mark.parametrize(
    ("stream", "buffers", "message"),
    [
        (0, 18, "stream 0 exists already"),
        (-1, 18, "stream -1 exists already or is no stream number"),
        (0xFFFFFFFF, 18, "is no stream number"),
        (1, 0, "0 buffers cannot be sent"),
        (1, 128, "128 buffers cannot be sent to a client; 1 to 127 can"),
    ],
)
def test_streams_that_no_client_could_use_are_refused(
    config: VisionIpcConfig, stream: int, buffers: int, message: str
) -> None:
    with VisionIpcServer(config) as server:
        server.add_stream(0, LAYOUT, 1)
        with pytest.raises(ModeldError, match=message):
            server.add_stream(stream, LAYOUT, buffers)


def test_as_many_buffers_as_a_client_accepts_arrive(config: VisionIpcConfig) -> None:
    with VisionIpcServer(config) as server:
        server.add_stream(0, LAYOUT, 127)
        server.start()
        stream = VisionIpcStream(config, 0, False)
        assert stream.connect(10)
        stream.close()


def buffers_open(stream: int) -> int:
    links = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return sum(f"visionbuf_{stream}_" in link for link in links)


def test_closing_leaves_no_buffer_thread_or_socket(config: VisionIpcConfig) -> None:
    for _ in range(3):
        with VisionIpcServer(config) as server:
            server.add_stream(4711, LAYOUT)
            server.start()
            assert config.socket_path.exists()
            assert buffers_open(4711) == 2 * DEFAULT_BUFFERS  # to be sent, and mapped
            assert "visionipc-listener" in [thread.name for thread in threading.enumerate()]
        assert not config.socket_path.exists()
        assert buffers_open(4711) == 0
        assert "visionipc-listener" not in [thread.name for thread in threading.enumerate()]
