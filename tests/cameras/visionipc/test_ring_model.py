"""Rings against what a list would do, for every order of sending, reading and losing slots.

A ring may lose records, but never silently, never out of order, never damaged, and never when
they had room.
"""

import random
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from modeld.cameras.visionipc.counters import StreamCounters
from modeld.cameras.visionipc.publisher import Publisher
from modeld.cameras.visionipc.ring import (
    HEADER_BYTES,
    MAX_READERS,
    READER_COUNT,
    READER_UID,
    READER_VALID,
    Ring,
    aligned,
)
from modeld.cameras.visionipc.subscriber import Subscriber


def payload(number: int, size: int) -> bytes:
    """A record that tells its number and cannot be confused with parts of others."""
    return random.Random(number).randbytes(size)


def occupied(sizes: list[int]) -> int:
    return sum(aligned(8 + size) for size in sizes)


@dataclass
class Reader:
    subscriber: Subscriber
    counters: StreamCounters
    next: int  # number of the first record not yet received or given up
    excused: int = 0  # losses that the counters have admitted to


class RingMachine(RuleBasedStateMachine):
    """One publisher at a time, a queueing and a conflating reader, and a thief of slots."""

    @initialize(segment=st.sampled_from([96, 104, 256, 1000, 4096]))
    def open(self, segment: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.segment = segment
        self.sizes: list[int] = []
        self.publisher = Publisher(Ring.create(self.folder / "ring", segment))
        self.queueing = self._reader(conflate=False)
        self.newest = self._reader(conflate=True)

    def _reader(self, conflate: bool) -> Reader:
        ring = Ring.open(self.folder / "ring")
        assert ring is not None
        counters = StreamCounters()
        reader = Reader(Subscriber(ring, conflate, counters), counters, 0)
        assert reader.subscriber.register()
        return reader

    @property
    def largest(self) -> int:
        return self.segment // 3 // 8 * 8 - 8

    @rule(fraction=st.floats(0, 1), count=st.integers(1, 4))
    def send(self, fraction: float, count: int) -> None:
        size = 1 + int(fraction * (self.largest - 1))
        for _ in range(count):
            self.publisher.send(payload(len(self.sizes), size))
            self.sizes.append(size)

    @rule()
    def receive(self) -> None:
        reader = self.queueing
        unread = self.sizes[reader.next :]
        room = occupied(unread) + aligned(8 + self.largest) + 16 < self.segment
        received = reader.subscriber.receive()
        lost = reader.counters.overrun - reader.excused
        reader.excused += lost
        if lost:
            assert not room
            assert received is None
            reader.next = len(self.sizes)
        elif unread:
            assert received == payload(reader.next, unread[0])
            reader.next += 1
        else:
            assert received is None

    @rule()
    def receive_newest(self) -> None:
        reader = self.newest
        received = reader.subscriber.receive()
        lost = reader.counters.overrun - reader.excused
        reader.excused += lost
        if lost or reader.next == len(self.sizes):
            assert received is None
        else:
            assert received == payload(len(self.sizes) - 1, self.sizes[-1])
        reader.next = len(self.sizes)

    @rule()
    def steal_slots(self) -> None:
        """A sixteenth reader of msgq's own comes, and goes at once."""
        words = self.publisher.ring.words
        words.store(READER_COUNT, 0)
        for index in range(MAX_READERS):
            words.store(READER_VALID + index, 0)
            words.store(READER_UID + index, 0)
        self._forgive()

    @rule()
    def restart_publisher(self) -> None:
        self.publisher.close()
        self.publisher = Publisher(Ring.create(self.folder / "ring"))
        self._forgive()

    def _forgive(self) -> None:
        """A reader without a slot may lose what it has not read, if that is over a third."""
        for reader in (self.queueing, self.newest):
            if occupied(self.sizes[reader.next :]) + self.largest + 16 > self.segment // 3:
                reader.subscriber.receive()
                reader.excused = reader.counters.overrun
                reader.next = len(self.sizes)
                while reader.subscriber.receive() is not None:
                    pass

    @invariant()
    def nothing_looks_damaged(self) -> None:
        if hasattr(self, "folder"):
            assert self.queueing.counters.corrupt == self.newest.counters.corrupt == 0
            assert self.publisher.reader_count() <= 2

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.queueing.subscriber.close()
            self.newest.subscriber.close()
            self.publisher.close()
            shutil.rmtree(self.folder)


TestRing = RingMachine.TestCase
TestRing.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


@given(
    readers=st.integers(0, 20),
    words=st.lists(st.integers(0, 2**64 - 1), min_size=47, max_size=47),
    records=st.binary(min_size=8, max_size=200),
)
@settings(max_examples=150, deadline=None)
def test_a_garbage_ring_neither_hangs_nor_kills_a_reader(
    readers: int, words: list[int], records: bytes
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ring"
        header = b"".join(word.to_bytes(8, "little") for word in (readers, *words))
        path.write_bytes(header + records)
        ring = Ring.open(path)
        assert ring is not None
        subscriber = Subscriber(ring, False, StreamCounters())
        for _ in range(3):
            received = subscriber.receive()
            assert received is None or 0 < len(received) <= len(records)
        subscriber.close()
        assert path.stat().st_size == HEADER_BYTES + len(records)


@given(st.lists(st.integers(-2, 40), min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def test_garbage_lengths_are_counted_and_the_next_record_is_received(lengths: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        publisher = Publisher(Ring.create(Path(folder) / "ring", 256))
        ring = Ring.open(Path(folder) / "ring")
        assert ring is not None
        counters = StreamCounters()
        subscriber = Subscriber(ring, False, counters)
        subscriber.register()
        publisher.send(b"12345678")
        for index, length in enumerate(lengths):
            publisher.ring.write(8 * index, length.to_bytes(8, "little", signed=True))
        for _ in range(20):
            if subscriber.receive() is None:
                break
        else:
            raise AssertionError("a ring of 16 bytes gave 20 records")
        publisher.send(b"healthy")
        assert subscriber.receive() == b"healthy"
        assert counters.corrupt <= 1
        subscriber.close()
        publisher.close()
