import os
import struct
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from camera_bench import evict_all_readers

from modeld.cameras.visionipc.counters import StreamCounters
from modeld.cameras.visionipc.publisher import Publisher
from modeld.cameras.visionipc.ring import (
    DEFAULT_SEGMENT_BYTES,
    HEADER_BYTES,
    Ring,
    aligned,
    packed,
    unread_bytes,
)
from modeld.cameras.visionipc.subscriber import Subscriber
from modeld.cameras.visionipc.wakeup import wait_for_wakeup
from modeld.errors import ModeldError

Pair = tuple[Publisher, Subscriber]


@pytest.fixture
def pair(tmp_path: Path, keep: ExitStack) -> Callable[..., Pair]:
    """A publisher and a registered subscriber on a ring of the given length."""

    def make(segment: int, conflate: bool = False) -> Pair:
        publisher = Publisher(Ring.create(tmp_path / "ring", segment))
        keep.callback(publisher.close)
        ring = Ring.open(tmp_path / "ring")
        assert ring is not None
        subscriber = Subscriber(ring, conflate, StreamCounters())
        keep.callback(subscriber.close)
        assert subscriber.register()
        return publisher, subscriber

    return make


def header(path: Path) -> tuple[int, ...]:
    return struct.unpack_from("<48Q", path.read_bytes())


def test_the_bytes_of_a_ring_are_those_of_msgq(pair: Callable[..., Pair], tmp_path: Path) -> None:
    publisher, subscriber = pair(128)
    publisher.send(b"hello")
    words = header(tmp_path / "ring")
    assert HEADER_BYTES == 8 * len(words) == 384
    assert words[0] == 1  # readers
    assert words[1] == 16  # write position: 8 + 5, padded
    assert words[2] & 0xFFFFFFFF == os.getpid()  # the writing thread
    assert words[3] == 0  # read position
    assert words[18] == 1  # valid
    assert words[33] & 0xFFFFFFFF == os.getpid()  # the reading thread
    assert words[2] != words[33]
    assert (tmp_path / "ring").read_bytes()[384:400] == b"\5\0\0\0\0\0\0\0hello\0\0\0"
    assert subscriber.receive() == b"hello"
    assert header(tmp_path / "ring")[3] == 16


def test_a_new_ring_is_made_with_its_folder_and_mode(tmp_path: Path) -> None:
    path = tmp_path / "msgq_new" / "ring"
    umask = os.umask(0o002)
    try:
        Ring.create(path).close()
    finally:
        os.umask(umask)
    assert path.stat().st_size == HEADER_BYTES + DEFAULT_SEGMENT_BYTES
    assert path.stat().st_mode & 0o777 == 0o664


def test_a_ring_keeps_the_length_that_it_has(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    Ring.create(path, 10 << 20).close()
    for ring in (Ring.create(path, 1024), Ring.open(path)):
        assert ring is not None
        assert ring.segment == 10 << 20
        ring.close()
    assert path.stat().st_size == HEADER_BYTES + (10 << 20)


@pytest.mark.parametrize("size", [None, 0, 384])
def test_a_ring_that_is_not_there_yet_is_not_made_by_a_reader(
    tmp_path: Path, size: int | None
) -> None:
    path = tmp_path / "ring"
    if size is not None:
        path.write_bytes(bytes(size))
    assert Ring.open(path) is None
    assert path.exists() == (size is not None)


def test_a_path_that_cannot_be_a_ring_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match=r"cannot be opened .*directory"):
        Ring.open(tmp_path)
    with pytest.raises(ModeldError, match="cannot be created"):
        Ring.create(tmp_path)


def test_a_reader_knows_when_its_ring_was_replaced(tmp_path: Path) -> None:
    ring = Ring.create(tmp_path / "ring", 1024)
    assert ring.is_current()
    (tmp_path / "ring").unlink()
    assert not ring.is_current()
    Ring.create(tmp_path / "ring", 1024).close()
    assert not ring.is_current()
    ring.close()


def test_exactly_eight_bytes_left_means_a_wrap(pair: Callable[..., Pair], tmp_path: Path) -> None:
    # After 56 of 96 bytes, 32 more would leave 8: just enough for a mark, so the mark comes now.
    publisher, subscriber = pair(96)
    for payload in (b"a" * 24, b"b" * 16):
        publisher.send(payload)
        assert subscriber.receive() == payload
    assert header(tmp_path / "ring")[1] == 56
    publisher.send(b"c" * 24)
    assert header(tmp_path / "ring")[1] == packed(1, 32)
    assert (tmp_path / "ring").read_bytes()[384 + 56 : 384 + 64] == b"\xff" * 8
    assert subscriber.receive() == b"c" * 24
    assert subscriber.receive() is None


def test_sixteen_bytes_left_mean_no_wrap(pair: Callable[..., Pair], tmp_path: Path) -> None:
    publisher, subscriber = pair(104)
    publisher.send(b"a" * 24)
    publisher.send(b"b" * 16)
    publisher.send(b"c" * 24)
    assert header(tmp_path / "ring")[1] == 88
    assert [subscriber.receive() for _ in range(4)] == [b"a" * 24, b"b" * 16, b"c" * 24, None]


@pytest.mark.parametrize(
    ("segment", "size", "fits"), [(96, 24, True), (96, 25, False), (96, 0, False), (8, 1, False)]
)
def test_a_record_fits_three_times_and_is_not_empty(
    pair: Callable[..., Pair], segment: int, size: int, fits: bool
) -> None:
    publisher, subscriber = pair(segment)
    if fits:
        publisher.send(bytes(size))
        assert subscriber.receive() == bytes(size)
    else:
        with pytest.raises(ModeldError, match=f"record of {size} bytes cannot be sent"):
            publisher.send(bytes(size))
        assert subscriber.receive() is None


def test_a_newer_publisher_ends_the_older_one(pair: Callable[..., Pair], tmp_path: Path) -> None:
    publisher, subscriber = pair(1024)
    publisher.send(b"old")
    newer = Publisher(Ring.create(tmp_path / "ring"))
    with pytest.raises(ModeldError, match="another publisher has taken over"):
        publisher.send(b"lost")
    newer.send(b"new")
    assert [subscriber.receive() for _ in range(3)] == [b"old", b"new", None]
    newer.close()


def test_a_publisher_survives_another_program_cutting_its_ring(
    pair: Callable[..., Pair], tmp_path: Path
) -> None:
    publisher, subscriber = pair(1 << 20)
    for number in range(60):
        publisher.send(bytes([number]) * 10_000)
        assert subscriber.receive() == bytes([number]) * 10_000
    os.truncate(tmp_path / "ring", HEADER_BYTES + 4096)
    for number in range(60):
        publisher.send(bytes([number]) * 1000)
        received = subscriber.receive()
        assert received == bytes([number]) * 1000 or number == 0
    with pytest.raises(ModeldError, match="readers accept 1 to 1352"):
        publisher.send(bytes(10_000))


def test_a_publisher_does_not_exceed_its_readers_when_the_ring_grows(
    pair: Callable[..., Pair], tmp_path: Path
) -> None:
    publisher, subscriber = pair(1024)
    os.truncate(tmp_path / "ring", HEADER_BYTES + 8192)
    for number in range(50):
        publisher.send(bytes([number]) * 200)
        assert subscriber.receive() == bytes([number]) * 200


def valid(path: Path) -> int:
    return header(path)[18]


def test_a_reader_is_told_before_its_next_record_is_overwritten(
    pair: Callable[..., Pair], tmp_path: Path
) -> None:
    publisher, subscriber = pair(160)
    publisher.send(b"read")  # 16 bytes
    subscriber.receive()
    for _ in range(4):  # up to 144 of 160
        publisher.send(bytes(24))
    publisher.send(b"at 0")
    assert valid(tmp_path / "ring") == 1
    publisher.send(b"at 16")
    assert valid(tmp_path / "ring") == 0


def test_a_reader_is_told_when_the_mark_of_a_wrap_destroys_its_next_record(
    pair: Callable[..., Pair], tmp_path: Path
) -> None:
    """Also the reader exactly at the mark, whom msgq's own publisher leaves in the dark."""
    publisher, subscriber = pair(160)
    for size in (32, 24, 24):  # up to 104
        publisher.send(bytes(size))
        subscriber.receive()
    for size in (40, 16, 24):  # a wrap, then 0 to 48, to 72, to 104
        publisher.send(bytes(size))
    assert header(tmp_path / "ring")[1] == packed(1, 104)
    assert valid(tmp_path / "ring") == 1
    publisher.send(bytes(40))  # 48 more would leave 8, so a mark goes to 104
    assert header(tmp_path / "ring")[1] == packed(2, 48)
    assert valid(tmp_path / "ring") == 0


@pytest.mark.parametrize(("size", "destroyed_at"), [(40, 1), (200, 1), (200, 2)])
def test_a_record_destroyed_while_it_is_read_is_not_received(
    pair: Callable[..., Pair], monkeypatch: pytest.MonkeyPatch, size: int, destroyed_at: int
) -> None:
    publisher, subscriber = pair(1024)
    publisher.send(b"a" * size)
    calls: list[int] = []
    real_read = subscriber.ring.read

    def slow_read(offset: int, count: int) -> bytes:
        calls.append(offset)
        if len(calls) == destroyed_at:
            for _ in range(1024 // size + 1):
                publisher.send(b"b" * size)
        return real_read(offset, count)

    monkeypatch.setattr(subscriber.ring, "read", slow_read)
    assert subscriber.receive() is None
    assert subscriber._counters == StreamCounters(overrun=1)
    publisher.send(b"c")
    assert subscriber.receive() == b"c"


@pytest.mark.parametrize(("records", "lost"), [(17, False), (18, True)])
def test_an_evicted_reader_goes_on_where_it_was_within_a_third_of_the_ring(
    pair: Callable[..., Pair], records: int, lost: bool
) -> None:
    publisher, subscriber = pair(3000)
    for number in range(records):
        publisher.send(bytes([number]) * 48)  # 56 bytes each, 1000 are a third
    evict_all_readers(publisher.ring)
    if lost:
        assert subscriber.receive() is None
    else:
        received = [subscriber.receive() for _ in range(records + 1)]
        assert received == [bytes([number]) * 48 for number in range(records)] + [None]
    assert subscriber._counters == StreamCounters(evicted=1, overrun=int(lost))


def test_every_record_wakes_its_readers(pair: Callable[..., Pair]) -> None:
    publisher, _ = pair(1024)
    for _ in range(3):
        while wait_for_wakeup(0):
            pass
        publisher.send(b"x")
        assert wait_for_wakeup(0)


@pytest.mark.parametrize("length", [0, -2, -(2**62), 1 << 20])
def test_an_impossible_length_is_a_damaged_record(pair: Callable[..., Pair], length: int) -> None:
    publisher, subscriber = pair(1024)
    publisher.send(b"12345678")
    publisher.ring.write(0, struct.pack("<q", length))
    assert subscriber.receive() is None
    assert subscriber._counters == StreamCounters(corrupt=1)
    assert f"a record at 0 claims {length} bytes" in subscriber._counters.problem
    publisher.send(b"healthy")
    assert subscriber.receive() == b"healthy"


def test_who_has_read_is_known(pair: Callable[..., Pair]) -> None:
    publisher, subscriber = pair(1024)
    assert publisher.reader_count() == 1
    publisher.send(b"a")
    assert not publisher.all_read()
    subscriber.receive()
    assert publisher.all_read()
    publisher.send(b"b")
    subscriber.close()
    assert publisher.reader_count() == 0
    assert publisher.all_read()


@pytest.mark.parametrize(
    ("read", "written", "unread"),
    [
        (packed(0, 16), packed(0, 16), 0),
        (packed(0, 16), packed(0, 40), 24),
        (packed(3, 80), packed(4, 16), 32),
        (packed(3, 80), packed(4, 80), None),
        (packed(3, 80), packed(4, 88), None),
        (packed(3, 80), packed(5, 16), None),
        (packed(4, 80), packed(4, 16), None),
        (packed(2**32 - 1, 80), packed(0, 16), 32),
        (packed(3, 104), packed(4, 16), None),
    ],
)
def test_unread_bytes_of_a_ring_of_96(read: int, written: int, unread: int | None) -> None:
    assert unread_bytes(read, written, 96) == unread


@pytest.mark.parametrize(("count", "rounded"), [(0, 0), (1, 8), (8, 8), (9, 16), (-7, 0)])
def test_lengths_are_rounded_up_to_eight(count: int, rounded: int) -> None:
    assert aligned(count) == rounded
