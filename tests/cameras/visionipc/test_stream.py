"""A camera stream and every way in which a server can disappoint it."""

import os
import struct
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from camera_bench import LAYOUT, ForgedServer, evict_all_readers, owners, picture, shows

from modeld.cameras.frame import Frame, FrameLayout
from modeld.cameras.visionipc.counters import StreamCounters
from modeld.cameras.visionipc.paths import VisionIpcConfig
from modeld.cameras.visionipc.ring import Ring
from modeld.cameras.visionipc.server import VisionIpcServer
from modeld.cameras.visionipc.stream import VisionIpcStream

Open = Callable[..., VisionIpcStream]


@pytest.fixture
def stream(config: VisionIpcConfig, keep: ExitStack) -> Open:
    """A stream, not yet connected."""

    def make(number: int = 0, conflate: bool = False) -> VisionIpcStream:
        opened = VisionIpcStream(config, number, conflate)
        keep.callback(opened.close)
        return opened

    return make


@pytest.fixture
def serve(config: VisionIpcConfig, keep: ExitStack) -> Callable[..., VisionIpcServer]:
    def make(buffers: int = 18, *streams: int) -> VisionIpcServer:
        server = VisionIpcServer(config)
        for number in streams or (0,):
            server.add_stream(number, LAYOUT, buffers)
        server.start()
        keep.callback(server.close)
        return server

    return make


def faults(counters: StreamCounters) -> dict[str, int]:
    ignored = ("received", "skipped", "problem")
    return {k: v for k, v in vars(counters).items() if v and k not in ignored}


def test_every_frame_is_received_in_order(
    serve: Callable[..., VisionIpcServer], stream: Open
) -> None:
    server, queue = serve(), stream()
    assert queue.layout is None
    assert queue.connect(10)
    assert queue.layout == LAYOUT
    for frame_id in range(1, 100):
        assert server.send(0, picture(frame_id)) == (frame_id - 1) % 18
        assert shows(queue.receive(10)) == frame_id
    assert queue.receive(0) is None
    assert queue.counters == StreamCounters(received=99)


def test_only_the_newest_frame_is_received(
    serve: Callable[..., VisionIpcServer], stream: Open
) -> None:
    server, newest = serve(), stream(conflate=True)
    newest.connect(10)
    for first in range(1, 100, 7):
        for frame_id in range(first, first + 7):
            server.send(0, picture(frame_id))
        assert shows(newest.receive(10)) == first + 6
        assert newest.receive(0) is None
    assert newest.counters == StreamCounters(received=15, skipped=90)


def test_pixels_are_the_servers_memory_itself(
    serve: Callable[..., VisionIpcServer], stream: Open
) -> None:
    server, queue = serve(1), stream()
    queue.connect(10)
    server.send(0, picture(1))
    first = queue.receive(10)
    assert first is not None
    assert first.data.ctypes.data % 4096 == 0
    assert not first.data.flags.writeable
    server.send(0, picture(2))
    assert (first.data == 2).all()
    second = queue.receive(10)
    assert second is not None
    assert second.data is first.data


def test_a_frame_outlives_its_stream(serve: Callable[..., VisionIpcServer], stream: Open) -> None:
    server, queue = serve(), stream()
    queue.connect(10)
    server.send(0, picture(9))
    frame = queue.receive(10)
    queue.close()
    server.close()
    assert shows(frame) == 9


def test_padded_pictures_keep_their_layout(config: VisionIpcConfig, stream: Open) -> None:
    layout = FrameLayout(width=60, height=44, stride=128, uv_offset=128 * 48)
    with VisionIpcServer(config) as server:
        server.add_stream(0, layout, length=layout.bytes + 5003)
        server.start()
        queue = stream()
        queue.connect(10)
        for frame_id in range(1, 20):
            server.send(0, picture(frame_id, layout))
            frame = queue.receive(10)
            assert shows(frame) == frame_id
            assert frame is not None
            assert frame.layout == layout
            assert frame.data.shape == (layout.bytes,)


def test_a_stream_may_appear_late(config: VisionIpcConfig, stream: Open) -> None:
    queue = stream(2)
    assert queue.receive(0) is None
    assert not queue.connect(0)
    with VisionIpcServer(config) as server:
        server.add_stream(0, LAYOUT)
        server.start()
        assert not queue.connect(0.15)
        assert faults(queue.counters).keys() == {"unserved"}
        assert queue.counters.problem == "camerad stream 2 (wide road) is not served"
        server.add_stream(2, LAYOUT)
        assert queue.connect(10)
        server.send(2, picture(4))
        assert shows(queue.receive(10)) == 4


def test_a_stream_whose_ring_comes_late_is_waited_for(
    forge: Callable[..., ForgedServer], stream: Open, config: VisionIpcConfig
) -> None:
    forged = forge().start()
    hidden = config.ring_path(0).rename(config.ring_folder / "hidden")
    queue = stream()
    assert not queue.connect(0)
    assert not config.ring_path(0).exists()
    hidden.rename(config.ring_path(0))
    assert queue.connect(10)
    forged.announce(0, 3)
    assert queue.receive(10) is not None


def test_the_older_place_of_the_ring_is_found(
    forge: Callable[..., ForgedServer], stream: Open, config: VisionIpcConfig
) -> None:
    forged = forge().start()
    older = config.older_ring_path(0)
    older.parent.mkdir()
    config.ring_path(0).rename(older)
    queue = stream()
    assert queue.connect(10)
    forged.announce(0, 3)
    assert queue.receive(10) is not None


def test_records_with_opencl_pointers_are_understood(
    forge: Callable[..., ForgedServer], stream: Open
) -> None:
    forged = forge()
    forged.data = b"".join(
        forged.data[start : start + 108] + b"\xaa" * 28 for start in range(0, 336, 112)
    )
    forged.start()
    queue = stream()
    assert queue.connect(10)
    assert queue.layout == LAYOUT


def open_memory() -> int:
    """Descriptors of this process that lead to picture buffers, mapped ones included."""
    links = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return sum(link.startswith("/memfd:forged") for link in links)


def _two_descriptors(forged: ForgedServer) -> None:
    os.close(forged.descriptors.pop())


def _no_descriptor(forged: ForgedServer) -> None:
    while forged.descriptors:
        _two_descriptors(forged)


def _odd_record(forged: ForgedServer) -> None:
    forged.data = bytes(120 * 3)


def _huge_picture(forged: ForgedServer) -> None:
    forged.data = forged.data[:48] + struct.pack("<Q", 2**40) + forged.data[56:]


def _short_memory(forged: ForgedServer) -> None:
    os.ftruncate(forged.descriptors[1], LAYOUT.bytes + 7)


def _pipe_for_memory(forged: ForgedServer) -> None:
    read, write = os.pipe()
    os.dup2(read, forged.descriptors[2])
    os.close(read)
    os.close(write)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (_two_descriptors, "336 bytes for 2 buffers"),
        (_no_descriptor, "0 file descriptors with 336 bytes"),
        (_odd_record, "360 bytes for 3 buffers"),
        (_huge_picture, "64x1099511627776 pixels"),
        (_short_memory, "buffer 1 has 9223 bytes of memory, its description says 9224"),
        (_pipe_for_memory, "buffer 2 cannot be mapped"),
    ],
)
def test_impossible_buffers_are_counted_and_leak_nothing(
    forge: Callable[..., ForgedServer],
    stream: Open,
    spoil: Callable[[ForgedServer], None],
    problem: str,
) -> None:
    forged = forge()
    spoil(forged)
    forged.start()
    queue = stream()
    before = open_memory()
    assert queue.receive(0.3) is None
    assert open_memory() == before
    assert faults(queue.counters).keys() == {"bad_reply"}
    assert queue.counters.bad_reply >= 2
    assert problem in queue.counters.problem


def test_a_buffer_that_does_not_exist_is_counted(
    forge: Callable[..., ForgedServer], stream: Open
) -> None:
    forged, queue = forge().start(), stream()
    queue.connect(10)
    for index, frame_id in ((3, 2), (2**64 - 1, 3), (1, 4)):
        forged.announce(index, frame_id)
    frame = queue.receive(10)
    assert frame is not None
    assert frame.frame_id == 4
    assert faults(queue.counters) == {"bad_index": 2}
    assert "frame 3 in buffer 18446744073709551615 of 3" in queue.counters.problem


def test_packets_of_another_size_are_counted(
    forge: Callable[..., ForgedServer], stream: Open
) -> None:
    forged, queue = forge().start(), stream()
    queue.connect(10)
    for garbage in (b"x", bytes(47), bytes(49), bytes(1000)):
        forged.publisher.send(garbage)
    forged.announce(2, 6)
    frame = queue.receive(10)
    assert frame is not None
    assert frame.frame_id == 6
    assert faults(queue.counters) == {"corrupt": 4}
    assert queue.counters.problem.endswith("packet of 1000 bytes instead of 48")


def test_packets_of_a_server_that_does_not_answer_are_counted(
    forge: Callable[..., ForgedServer], stream: Open
) -> None:
    forged, queue = forge().start(), stream()
    queue.connect(10)
    forged.announce(0, 1, server=5)
    forged.announce(0, 2, server=5)
    forged.announce(0, 3)
    frame = queue.receive(10)
    assert frame is not None
    assert frame.frame_id == 3
    assert faults(queue.counters) == {"foreign": 2}
    assert "packet of server 0x5" in queue.counters.problem


def test_frame_ids_that_jump_back_are_counted(
    forge: Callable[..., ForgedServer], stream: Open
) -> None:
    forged, queue = forge().start(), stream()
    queue.connect(10)
    for frame_id in (5, 6, 2, 3, 3):
        forged.announce(0, frame_id)
        frame = queue.receive(10)
        assert frame is not None
        assert frame.frame_id == frame_id
    assert faults(queue.counters) == {"id_back": 1}
    assert queue.counters.problem.endswith("frame 2 follows 6")


def test_overwritten_pictures_are_told_by_their_stamp(
    serve: Callable[..., VisionIpcServer], stream: Open
) -> None:
    server, queue = serve(4), stream()
    queue.connect(10)
    for frame_id in range(1, 11):
        server.send(0, picture(frame_id))
    assert [shows(queue.receive(10)) for _ in range(4)] == [7, 8, 9, 10]
    assert queue.receive(0) is None
    assert faults(queue.counters) == {"overwritten": 6}
    assert "frame 6 came too late, its buffer shows 10" in queue.counters.problem


def test_without_stamps_overwritten_pictures_are_told_by_the_backlog(
    forge: Callable[..., ForgedServer], stream: Open
) -> None:
    forged, queue = forge().start(), stream()
    queue.connect(10)
    for frame_id in range(10):
        forged.announce(frame_id % 3, frame_id)
    received = []
    while (frame := queue.receive(0)) is not None:
        received.append(frame.frame_id)
    assert received == [7, 8, 9]
    assert faults(queue.counters) == {"overwritten": 7}


def test_a_single_buffer_without_stamps_is_used_in_lock_step(
    forge: Callable[..., ForgedServer], stream: Open
) -> None:
    forged, queue = forge().start(), stream()
    queue.connect(10)
    for frame_id in range(5):
        forged.announce(0, frame_id)
        frame = queue.receive(10)
        assert frame is not None
        assert frame.frame_id == frame_id
    assert faults(queue.counters) == {}


def test_a_flag_that_was_never_set_says_nothing(
    serve: Callable[..., VisionIpcServer], stream: Open
) -> None:
    server, queue = serve(), stream()
    queue.connect(10)
    said = []
    for frame_id, valid in enumerate([False, False, True, False, True], start=1):
        frame = picture(frame_id)
        server.send(0, Frame(frame.data, LAYOUT, frame_id, 0, 0, valid))
        received = queue.receive(10)
        assert received is not None
        said.append(received.valid)
    assert said == [True, True, True, False, True]


def test_a_restarted_server_costs_no_frame(
    serve: Callable[..., VisionIpcServer], stream: Open
) -> None:
    server, queue, newest = serve(), stream(), stream(conflate=True)
    queue.connect(10)
    newest.connect(10)
    for generation in range(4):
        for frame_id in range(1, 6):
            server.send(0, picture(frame_id + generation))
            assert shows(queue.receive(10)) == frame_id + generation
            assert shows(newest.receive(10)) == frame_id + generation
        assert server.reader_count(0) == 2
        server.close()
        assert queue.receive(0) is None
        server = serve()
    assert faults(queue.counters) == {"evicted": 3, "reconnected": 3}


def test_a_replaced_ring_is_found(
    config: VisionIpcConfig, serve: Callable[..., VisionIpcServer], stream: Open
) -> None:
    server, queue = serve(), stream()
    queue.connect(10)
    server.send(0, picture(1))
    assert shows(queue.receive(10)) == 1
    server.close()
    config.ring_path(0).unlink()
    assert queue.receive(0) is None
    server = serve()
    assert queue.receive(0) is None
    server.send(0, picture(2))
    assert queue.receive(0) is None or server.reader_count(0) == 1
    server.send(0, picture(3))
    assert shows(queue.receive(10)) == 3
    assert queue.counters.reconnected == 2


def test_a_ring_that_cannot_be_opened_is_counted(
    config: VisionIpcConfig, serve: Callable[..., VisionIpcServer], stream: Open
) -> None:
    server, queue = serve(), stream()
    queue.connect(10)
    config.ring_path(0).unlink()
    config.ring_path(0).mkdir()
    assert queue.receive(0) is None
    assert faults(queue.counters) == {"bad_reply": 1}
    assert "cannot be opened" in queue.counters.problem
    server.send(0, picture(1))
    assert shows(queue.receive(10)) == 1


def test_evictions_cost_no_frame_and_no_slot(
    config: VisionIpcConfig, serve: Callable[..., VisionIpcServer], stream: Open
) -> None:
    server, queue = serve(), stream()
    queue.connect(10)
    ring = Ring.open(config.ring_path(0))
    assert ring is not None
    for frame_id in range(1, 50):
        server.send(0, picture(frame_id))
        evict_all_readers(ring)
        assert shows(queue.receive(10)) == frame_id
        assert len(owners(ring)) == 1
    assert faults(queue.counters) == {"evicted": 49}
    ring.close()


def test_begin_is_called_before_a_frame_is_waited_for_until_it_succeeds(
    config: VisionIpcConfig, serve: Callable[..., VisionIpcServer], keep: ExitStack
) -> None:
    server = serve()
    calls: list[int] = []

    def begin() -> bool:
        calls.append(server.reader_count(0))
        return len(calls) == 2

    queue = VisionIpcStream(config, 0, False, begin)
    keep.callback(queue.close)
    for _ in range(4):
        assert queue.receive(0) is None
    assert len(calls) == 2
    assert calls[0] == 0


def test_faults_are_logged_at_powers_of_two(caplog: pytest.LogCaptureFixture) -> None:
    counters = StreamCounters()
    for number in range(1, 10):
        counters.fault("corrupt", f"fault {number}")
    assert [record.getMessage() for record in caplog.records] == [
        f"fault {number} (corrupt: {number})" for number in (1, 2, 4, 8)
    ]
    assert counters.problem == "fault 9"
    assert counters.corrupt == counters.rejected == 9


@pytest.mark.parametrize("frame_id", [0, 1, 2**32 - 1])
def test_extreme_frame_ids(
    serve: Callable[..., VisionIpcServer], stream: Open, frame_id: int
) -> None:
    server, queue = serve(2), stream()
    queue.connect(10)
    data = np.zeros(LAYOUT.bytes, np.uint8)
    server.send(0, Frame(data, LAYOUT, frame_id, 2**63, 2**64 - 1))
    frame = queue.receive(10)
    assert frame is not None
    assert (frame.frame_id, frame.timestamp_sof, frame.timestamp_eof) == (
        frame_id,
        2**63,
        2**64 - 1,
    )
