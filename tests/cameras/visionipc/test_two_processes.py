"""Client and server in different processes: slow, evicted and crowded readers, killed servers."""

import select
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from camera_bench import LAYOUT, Other, owners, picture, shows

from modeld.cameras.visionipc.counters import StreamCounters
from modeld.cameras.visionipc.paths import NARROW_ROAD, WIDE_ROAD, VisionIpcConfig
from modeld.cameras.visionipc.ring import Ring
from modeld.cameras.visionipc.server import VisionIpcServer
from modeld.cameras.visionipc.source import open_cameras
from modeld.cameras.visionipc.stream import VisionIpcStream
from modeld.cameras.visionipc.subscriber import Subscriber
from modeld.cameras.visionipc.wakeup import wait_for_wakeup

Start = Callable[[], Other]


@pytest.fixture
def queue(config: VisionIpcConfig, keep: ExitStack) -> VisionIpcStream:
    stream = VisionIpcStream(config, NARROW_ROAD, conflate=False)
    keep.callback(stream.close)
    return stream


def ring_of(config: VisionIpcConfig, stream: int) -> Ring:
    ring = Ring.open(config.ring_path(stream))
    assert ring is not None
    return ring


def test_our_client_and_their_server_agree(other: Start, config: VisionIpcConfig) -> None:
    camerad = other()
    assert camerad("serve 18 0 2") == "serving"
    source = open_cameras(config, 10)
    assert source.narrow is not None
    assert source.wide is not None
    assert source.connect(10)
    for frame_id in range(1, 60):
        assert camerad(f"send 0 {frame_id} {frame_id}") == "sent 1"
        assert camerad(f"send 2 {frame_id} {frame_id}") == "sent 1"
        assert shows(source.narrow.receive(10)) == frame_id
        assert shows(source.wide.receive(10)) == frame_id
    assert source.counters == {
        "narrow": StreamCounters(received=59),
        "wide": StreamCounters(received=59),
    }
    source.close()


def test_their_client_and_our_server_agree(
    other: Start, config: VisionIpcConfig, keep: ExitStack
) -> None:
    server = keep.enter_context(VisionIpcServer(config))
    server.add_stream(WIDE_ROAD, LAYOUT, 3)
    server.start()
    client = other()
    assert client("connect 2 1") == "connected True"
    for frame_id in range(1, 60):
        server.send(WIDE_ROAD, picture(frame_id))
        assert client("receive 2") == f"{frame_id} {frame_id} True"
    assert server.all_read(WIDE_ROAD)


def test_a_slow_reader_gets_the_pictures_that_are_left(
    other: Start, queue: VisionIpcStream
) -> None:
    camerad = other()
    camerad("serve 5 0")
    queue.connect(10)
    camerad("send 0 1 40")
    assert [shows(queue.receive(10)) for _ in range(5)] == [36, 37, 38, 39, 40]
    assert queue.counters.overwritten == 35
    camerad("send 0 41 41")
    assert shows(queue.receive(10)) == 41


def test_a_very_slow_reader_goes_on_with_the_newest(
    other: Start, config: VisionIpcConfig, queue: VisionIpcStream
) -> None:
    Ring.create(config.ring_path(NARROW_ROAD), 1024).close()
    camerad = other()
    camerad("serve 18 0")
    queue.connect(10)
    camerad("send 0 1 40")
    assert queue.receive(0) is None
    assert queue.counters.overrun == 1
    camerad("send 0 41 41")
    assert shows(queue.receive(10)) == 41


def test_a_killed_server_is_silence_and_its_successor_is_found(
    other: Start, config: VisionIpcConfig, queue: VisionIpcStream
) -> None:
    for generation in range(3):
        camerad = other()
        camerad("serve 18 0")
        assert queue.connect(10)
        for frame_id in range(1, 10):
            camerad(f"send 0 {frame_id} {frame_id}")
            assert shows(queue.receive(10)) == frame_id
        camerad.kill()
        assert queue.receive(0.03) is None
        assert queue.counters.reconnected == generation
    ring = ring_of(config, NARROW_ROAD)
    assert len(owners(ring)) == 1
    ring.close()


def test_a_crowd_of_readers_is_left_alone_until_it_is_gone(
    other: Start, config: VisionIpcConfig, queue: VisionIpcStream
) -> None:
    camerad, crowd = other(), other()
    camerad("serve 18 0")
    assert crowd("crowd 0 15") == "slots 15"
    ring = ring_of(config, NARROW_ROAD)
    taken = owners(ring)
    assert not queue.connect(0.1)
    assert queue.counters.no_slot >= 1
    assert owners(ring) == taken
    crowd.kill()
    assert queue.connect(10)
    camerad("send 0 7 7")
    assert shows(queue.receive(10)) == 7
    assert len(owners(ring)) == 15
    ring.close()


def test_the_crowd_that_evicts_us_costs_no_frame(
    other: Start, config: VisionIpcConfig, queue: VisionIpcStream
) -> None:
    camerad, successor = other(), other()
    camerad("serve 18 0")
    queue.connect(10)
    camerad("send 0 1 3")
    camerad.kill()
    successor("serve 18 0")  # a new publisher forgets all readers
    successor("send 0 4 5")
    assert [shows(queue.receive(10)) for _ in range(5)] == [1, 2, 3, 4, 5]
    assert (queue.counters.evicted, queue.counters.reconnected) == (1, 1)


def test_records_are_whole_while_the_writer_is_faster(
    other: Start, config: VisionIpcConfig
) -> None:
    """A writer without pause laps the reader many times; what arrives is whole and in order."""
    segment = 2048
    Ring.create(config.ring_path(NARROW_ROAD), segment).close()
    ring = ring_of(config, NARROW_ROAD)
    counters = StreamCounters()
    reader = Subscriber(ring, False, counters)
    reader.register()
    writer = other()
    assert writer.process.stdin is not None
    writer.process.stdin.write(f"flood 0 {segment} 30000\n")
    writer.process.stdin.flush()
    last, received, give_up = 0, 0, time.monotonic() + 60
    while time.monotonic() < give_up:
        record = reader.receive()
        if record is None:
            if writer_is_done(writer):
                break
            wait_for_wakeup(0.01)
            continue
        number = int.from_bytes(record[:4], "little")
        if number == 0:
            break
        assert record == record[:4] * (1 + number * 7 % 16)
        assert number > last
        last, received = number, received + 1
    assert received > 300
    assert counters.corrupt == 0
    reader.close()


def writer_is_done(writer: Other) -> bool:
    assert writer.process.stdout is not None
    return bool(select.select([writer.process.stdout], [], [], 0)[0])
