import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from camera_bench import LAYOUT, ForgedServer, picture, shows

from modeld.cameras.frame import FrameSource
from modeld.cameras.visionipc.handshake import Answer
from modeld.cameras.visionipc.listener import Listener
from modeld.cameras.visionipc.paths import CABIN, NARROW_ROAD, WIDE_ROAD, VisionIpcConfig
from modeld.cameras.visionipc.server import VisionIpcServer
from modeld.cameras.visionipc.source import (
    SETTLE_S,
    CameraSearch,
    CameraWatch,
    VisionIpcSource,
    open_cameras,
)
from modeld.errors import ModeldError
from modeld.fakes.clock import FakeClock


@pytest.fixture
def server(config: VisionIpcConfig, keep: ExitStack) -> VisionIpcServer:
    return keep.enter_context(VisionIpcServer(config))


@pytest.fixture
def search(config: VisionIpcConfig, keep: ExitStack) -> tuple[CameraSearch, FakeClock]:
    clock = FakeClock()
    search = CameraSearch(config, clock)
    keep.callback(search.close)
    return search, clock


def test_two_cameras_are_found_at_once(config: VisionIpcConfig, server: VisionIpcServer) -> None:
    for stream in (NARROW_ROAD, CABIN, WIDE_ROAD):
        server.add_stream(stream, LAYOUT)
    server.start()
    source: FrameSource = open_cameras(config, 10)
    assert source.narrow is not None
    assert source.wide is not None
    source.close()


def test_the_first_pair_is_complete(config: VisionIpcConfig, server: VisionIpcServer) -> None:
    """The main camera gives its newest frame, the extra camera every one, from the same moment."""
    for stream in (NARROW_ROAD, WIDE_ROAD):
        server.add_stream(stream, LAYOUT)
    server.start()
    source = open_cameras(config, 10)
    assert source.narrow is not None
    assert source.wide is not None
    assert source.narrow.receive(0) is None
    for frame_id in (1, 2):
        server.send(NARROW_ROAD, picture(frame_id))
        server.send(WIDE_ROAD, picture(frame_id))
    assert shows(source.narrow.receive(10)) == 2
    assert [shows(source.wide.receive(10)) for _ in range(2)] == [1, 2]
    assert {name: c.received for name, c in source.counters.items()} == {"narrow": 1, "wide": 2}
    source.close()
    assert server.reader_count(NARROW_ROAD) == server.reader_count(WIDE_ROAD) == 0


def test_waiting_for_one_camera_connects_the_other(
    config: VisionIpcConfig, server: VisionIpcServer
) -> None:
    """The loop waits for the narrow camera first; a server may hand over the wide one late."""
    source = VisionIpcSource(config, frozenset({NARROW_ROAD, WIDE_ROAD}))
    assert source.narrow is not None
    assert source.narrow.receive(0) is None
    server.add_stream(NARROW_ROAD, LAYOUT)
    server.add_stream(WIDE_ROAD, LAYOUT)
    server.start()
    deadline = time.monotonic() + 10
    while not server.reader_count(WIDE_ROAD) and time.monotonic() < deadline:
        assert source.narrow.receive(0.01) is None
    assert server.reader_count(WIDE_ROAD) == 1
    source.close()


@pytest.mark.parametrize("stream", [NARROW_ROAD, WIDE_ROAD])
def test_one_camera_counts_once_it_stays_alone(
    server: VisionIpcServer, search: tuple[CameraSearch, FakeClock], stream: int
) -> None:
    server.add_stream(stream, LAYOUT)
    server.add_stream(CABIN, LAYOUT)
    server.start()
    cameras, clock = search
    assert cameras.poll(0) is None
    started = clock.monotonic_ns()
    source = cameras.poll(60)
    assert source is not None
    assert (clock.monotonic_ns() - started) / 1e9 == pytest.approx(SETTLE_S)
    only, none = source.narrow, source.wide
    if stream == WIDE_ROAD:
        only, none = none, only
    assert none is None
    assert only is not None
    assert only.receive(0) is None
    for frame_id in (1, 2):
        server.send(stream, picture(frame_id))
    assert shows(only.receive(10)) == 2  # it is the main camera, so its newest frame
    source.close()


def test_a_second_camera_may_come_later(
    server: VisionIpcServer, search: tuple[CameraSearch, FakeClock]
) -> None:
    server.add_stream(NARROW_ROAD, LAYOUT)
    server.start()
    cameras, _ = search
    assert cameras.poll(SETTLE_S / 2) is None
    server.add_stream(WIDE_ROAD, LAYOUT)
    source = cameras.poll(0.2)
    assert source is not None
    assert source.narrow is not None
    assert source.wide is not None
    source.close()


def test_a_server_may_come_later(
    server: VisionIpcServer, search: tuple[CameraSearch, FakeClock]
) -> None:
    cameras, _ = search
    assert cameras.poll(5) is None
    server.add_stream(NARROW_ROAD, LAYOUT)
    server.add_stream(WIDE_ROAD, LAYOUT)
    assert cameras.poll(5) is None
    server.start()
    source = cameras.poll(5)
    assert source is not None
    source.close()


class Watched:
    """A source on a server, watched, and seconds that pass at will."""

    def __init__(self, config: VisionIpcConfig, *streams: int) -> None:
        self.clock = FakeClock()
        self.source = VisionIpcSource(config, frozenset(streams))
        self.watch = CameraWatch(config, self.source, self.clock)

    def changed_within(self, seconds: int) -> bool:
        for _ in range(10 * seconds):
            self.clock.sleep(0.1)
            if self.watch.changed() or self.answered_changed():
                return True
        return False

    def answered_changed(self) -> bool:
        """The server answers in a thread of its own; real time passes until it has."""
        deadline = time.monotonic() + 10
        while self.watch.pending and time.monotonic() < deadline:
            if self.watch.changed():
                return True
        return False


@pytest.fixture
def watched(config: VisionIpcConfig, keep: ExitStack) -> Callable[..., Watched]:
    def make(*streams: int) -> Watched:
        found = Watched(config, *streams)
        keep.callback(found.source.close)
        keep.callback(found.watch.close)
        return found

    return make


def test_another_camera_is_noticed(
    server: VisionIpcServer, watched: Callable[..., Watched]
) -> None:
    server.add_stream(NARROW_ROAD, LAYOUT)
    server.add_stream(CABIN, LAYOUT)
    server.start()
    one = watched(NARROW_ROAD)
    assert not one.changed_within(10)
    server.add_stream(WIDE_ROAD, LAYOUT)
    assert not one.changed_within(1)  # a server may still be adding streams
    assert one.changed_within(2)
    assert not watched(NARROW_ROAD, WIDE_ROAD).changed_within(10)


def test_a_camera_that_is_gone_is_noticed(
    server: VisionIpcServer, watched: Callable[..., Watched]
) -> None:
    both = watched(NARROW_ROAD, WIDE_ROAD)
    assert not both.changed_within(10)  # no server: one that starts again has the same cameras
    server.add_stream(CABIN, LAYOUT)
    server.start()
    assert not both.changed_within(10)
    server.add_stream(WIDE_ROAD, LAYOUT)
    assert both.changed_within(3)


def test_nobody_is_asked_while_both_cameras_give_frames(
    config: VisionIpcConfig, keep: ExitStack, watched: Callable[..., Watched]
) -> None:
    asked: list[int] = []

    def answer(question: int) -> Answer | None:
        asked.append(question)
        return Answer(bytes([2, 0, 0, 0]), ())

    keep.callback(Listener(config.socket_path, answer).close)
    both = watched(NARROW_ROAD, WIDE_ROAD)
    assert not both.changed_within(1)
    asked.clear()
    for _ in range(20):
        for counters in both.source.counters.values():
            counters.received += 1
        assert not both.changed_within(1)
    assert asked == []
    assert both.changed_within(3)
    assert len(asked) == 2


def test_no_server_is_named(config: VisionIpcConfig) -> None:
    with pytest.raises(
        ModeldError, match=r"no stream at .*test_visionipc_camerad after .* start c"
    ):
        open_cameras(config, 0)


def test_a_server_without_road_cameras_is_named(
    config: VisionIpcConfig, server: VisionIpcServer
) -> None:
    server.add_stream(CABIN, LAYOUT)
    server.start()
    with pytest.raises(ModeldError, match=r"only streams \[1\] at"):
        open_cameras(config, 0.2)
    with pytest.raises(ModeldError, match=r"camerad serves streams \[1\], no road camera"):
        VisionIpcSource(config, frozenset({CABIN}))


@pytest.mark.parametrize("list_question", [0xFFFFFFFF, 4])
def test_the_list_is_asked_for_in_both_ways(
    config: VisionIpcConfig, keep: ExitStack, list_question: int
) -> None:
    """Before August 2026 the question for the list was 4; a server knows only its own."""
    asked: list[int] = []

    def answer(question: int) -> Answer | None:
        asked.append(question)
        return Answer(bytes([0, 0, 0, 0, 2, 0, 0, 0]), ()) if question == list_question else None

    keep.callback(Listener(config.socket_path, answer).close)
    search = CameraSearch(config, FakeClock())
    source = search.poll(1)
    assert source is not None
    assert asked == ([0xFFFFFFFF] if list_question != 4 else [0xFFFFFFFF, 4])
    source.close()
    search.close()


def test_a_stream_numbered_like_the_old_list_is_no_list(
    forge: Callable[..., ForgedServer], search: tuple[CameraSearch, FakeClock]
) -> None:
    forge(4).start()
    cameras, _ = search
    assert cameras.poll(1) is None
    assert cameras.streams == frozenset()
