"""Coming and going takes no more slots than there are readers, and throws out no living one."""

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from camera_bench import evict_all_readers, owners

from modeld.cameras.visionipc.counters import StreamCounters
from modeld.cameras.visionipc.publisher import Publisher
from modeld.cameras.visionipc.ring import (
    MAX_READERS,
    READ_POSITION,
    READER_COUNT,
    READER_UID,
    READER_VALID,
    Ring,
)
from modeld.cameras.visionipc.slots import STALE_BYTES, claim_slot, release_slot
from modeld.cameras.visionipc.subscriber import Subscriber
from modeld.cameras.visionipc.wakeup import wait_for_wakeup

ME = threading.get_native_id()


@pytest.fixture
def ring(tmp_path: Path, keep: ExitStack) -> Ring:
    ring = Ring.create(tmp_path / "ring", 1 << 16)
    keep.callback(ring.close)
    return ring


@pytest.fixture
def join(ring: Ring, keep: ExitStack) -> Callable[[], Subscriber]:
    def make() -> Subscriber:
        own = Ring.open(ring.path)
        assert own is not None
        subscriber = Subscriber(own, False, StreamCounters())
        keep.callback(subscriber.close)
        return subscriber

    return make


def dead_thread() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def fill(ring: Ring, thread: int) -> None:
    """Let a thread own all slots, each valid and up to date."""
    ring.words.store(READER_COUNT, MAX_READERS)
    for index in range(MAX_READERS):
        ring.words.store(READER_UID + index, index << 32 | thread)
        ring.words.store(READER_VALID + index, 1)


def test_readers_take_slots_in_order(ring: Ring) -> None:
    uids = [number << 32 | ME for number in range(1, 4)]
    assert [claim_slot(ring.words, uid, ring.segment) for uid in uids] == [0, 1, 2]
    assert [ring.words.load(READER_UID + index) for index in range(4)] == [*uids, 0]
    assert ring.words.load(READER_COUNT) == 3


def test_a_slot_that_was_left_is_used_again(ring: Ring) -> None:
    for number in range(1, 4):
        claim_slot(ring.words, number << 32 | ME, ring.segment)
    ring.words.store(READER_VALID + 1, 1)
    release_slot(ring.words, 1, 2 << 32 | ME)
    assert owners(ring) == [ME, 0, ME]
    assert ring.words.load(READER_VALID + 1) == 0
    assert claim_slot(ring.words, 9 << 32 | ME, ring.segment) == 1
    assert ring.words.load(READER_COUNT) == 3


def test_a_slot_that_is_no_longer_ours_is_not_left(ring: Ring) -> None:
    claim_slot(ring.words, 1 << 32 | ME, ring.segment)
    ring.words.store(READER_VALID, 1)
    release_slot(ring.words, 0, 2 << 32 | ME)
    assert owners(ring) == [ME]
    assert ring.words.load(READER_VALID) == 1


def test_a_dead_readers_slot_is_used_before_a_new_one(ring: Ring) -> None:
    for number in range(1, 4):
        claim_slot(ring.words, number << 32 | ME, ring.segment)
    ring.words.store(READER_UID + 1, 2 << 32 | dead_thread())
    assert claim_slot(ring.words, 4 << 32 | ME, ring.segment) == 1
    assert owners(ring) == [ME, ME, ME]


def test_fifteen_living_readers_are_left_alone(ring: Ring, join: Callable[[], Subscriber]) -> None:
    fill(ring, ME)
    before = ring.path.read_bytes()
    subscriber = join()
    assert not subscriber.register()
    assert subscriber.receive() is None
    assert ring.path.read_bytes() == before


@pytest.mark.parametrize("fault", ["behind", "invalid"])
def test_a_reader_that_never_reads_gives_way_when_all_slots_are_taken(
    ring: Ring, join: Callable[[], Subscriber], fault: str
) -> None:
    publisher = Publisher(Ring.create(ring.path))
    fill(ring, ME)
    subscriber = join()
    for _ in range(STALE_BYTES // 64 - 1):
        publisher.send(bytes(56))
    assert not subscriber.register()
    publisher.send(bytes(56))
    written = STALE_BYTES
    for index in range(MAX_READERS):
        ring.words.store(READ_POSITION + index, written)
    if fault == "behind":
        ring.words.store(READ_POSITION + 6, 0)
    else:
        ring.words.store(READER_VALID + 6, 0)
    assert subscriber.register()
    uids = [ring.words.load(READER_UID + index) >> 32 for index in range(MAX_READERS)]
    assert [index for index, uid in enumerate(uids) if uid != index] == [6]
    publisher.send(b"next")
    assert subscriber.receive() == b"next"
    publisher.close()


def test_more_readers_than_slots_in_a_damaged_header_are_not_believed(
    ring: Ring, join: Callable[[], Subscriber]
) -> None:
    fill(ring, ME)
    ring.words.store(READER_COUNT, 2**40)
    publisher = Publisher(Ring.create(ring.path))
    ring.words.store(READER_COUNT, 2**40)
    publisher.send(b"x")
    assert publisher.reader_count() == 0
    assert join().register()
    publisher.close()


def test_coming_and_going_takes_one_slot(ring: Ring, join: Callable[[], Subscriber]) -> None:
    publisher = Publisher(Ring.create(ring.path))
    for number in range(50):
        subscriber = join()
        assert subscriber.register()
        publisher.send(bytes([number]) * 8)
        assert subscriber.receive() == bytes([number]) * 8
        assert owners(ring) == [ME]
        subscriber.close()
        assert owners(ring) == [0]
    publisher.close()


def test_an_evicted_reader_returns_without_losing_a_record(
    ring: Ring, join: Callable[[], Subscriber]
) -> None:
    publisher, subscriber = Publisher(Ring.create(ring.path)), join()
    subscriber.register()
    for number in range(1, 40):
        publisher.send(bytes([number]))
        evict_all_readers(ring)
        publisher.send(bytes([number]) * 2)
        assert subscriber.receive() == bytes([number])
        assert subscriber.receive() == bytes([number]) * 2
        assert owners(ring) == [ME]
    publisher.close()


def test_a_reader_moves_its_slot_to_the_thread_that_reads(
    ring: Ring, join: Callable[[], Subscriber]
) -> None:
    publisher, subscriber = Publisher(Ring.create(ring.path)), join()
    subscriber.register()
    seen: list[tuple[bytes | None, list[int], int]] = []

    def read() -> None:
        publisher.send(b"moved")
        seen.append((subscriber.receive(), owners(ring), threading.get_native_id()))

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    (received, taken, reader) = seen[0]
    assert received == b"moved"
    assert taken == [reader]
    publisher.send(b"back")
    assert subscriber.receive() == b"back"
    assert owners(ring) == [ME]
    publisher.close()


def test_racing_readers_take_different_slots(ring: Ring) -> None:
    claimed: list[int | None] = []
    start = threading.Barrier(MAX_READERS)

    def claim(number: int) -> None:
        start.wait()
        claimed.append(claim_slot(ring.words, number << 32 | ME, ring.segment))

    threads = [threading.Thread(target=claim, args=(n + 1,)) for n in range(MAX_READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(slot for slot in claimed if slot is not None) == list(range(MAX_READERS))


def test_a_new_publisher_wakes_the_readers_that_it_forgets(
    ring: Ring, join: Callable[[], Subscriber]
) -> None:
    join().register()
    while wait_for_wakeup(0):
        pass
    Publisher(Ring.create(ring.path)).close()
    assert owners(ring) == []
    assert wait_for_wakeup(0)


def test_a_stranger_with_a_dead_readers_id_is_not_woken(
    ring: Ring, sleeper: subprocess.Popen[bytes], keep: ExitStack
) -> None:
    publisher = Publisher(Ring.create(ring.path))
    keep.callback(publisher.close)
    publisher.send(b"read by the one who died")
    ring.words.store(READER_COUNT, 1)
    ring.words.store(READER_UID, 7 << 32 | sleeper.pid)
    ring.words.store(READER_VALID, 1)
    publisher.send(b"to a stranger")
    # It still answers: a fatal signal would have come before the byte.
    assert sleeper.stdin is not None and sleeper.stdout is not None
    sleeper.stdin.write(b"x")
    sleeper.stdin.flush()
    assert sleeper.stdout.read(1) == b"x"
