"""The writing end of a ring."""

from collections.abc import Callable

from modeld.cameras.visionipc.ring import (
    LENGTH,
    LOW_32,
    MAX_READERS,
    READ_POSITION,
    READER_COUNT,
    READER_UID,
    READER_VALID,
    WRAP,
    WRITE_POSITION,
    WRITER_UID,
    Ring,
    aligned,
    new_uid,
    packed,
)
from modeld.cameras.visionipc.wakeup import survives_wakeup, wake
from modeld.errors import ModeldError


class Publisher:
    """Writes records to one ring. A ring has one publisher: a newer one ends an older one.

    `wake` is called with the id of each reader's thread after a record.

    Order of memory: readers of the area to be overwritten are invalidated first, then the
    record is written, then the position that covers it, each behind a fence; wake-ups last.
    """

    def __init__(self, ring: Ring, wake: Callable[[int], None] = wake) -> None:
        self.ring = ring
        self._wake = wake
        self._words = ring.words
        self._uid = new_uid()
        self._words.store(WRITER_UID, self._uid)
        self._segment = ring.segment
        self._evict_readers()

    def send(self, payload: bytes) -> None:
        """Publish one record, of 1 byte up to a third of the ring.

        Raises ModeldError for any other size, and when another publisher has taken over.
        """
        if self._words.load(WRITER_UID) != self._uid:
            raise ModeldError(
                f"{self.ring.path}: another publisher has taken over; stop one of the two"
            )
        if self.ring.measure() < self._segment:
            self._start_smaller_lap()
        total = aligned(LENGTH.size + len(payload))
        if not payload or 3 * total > self._segment:
            raise ModeldError(
                f"{self.ring.path}: a record of {len(payload)} bytes cannot be sent; readers "
                f"accept 1 to {self._segment // 3 // 8 * 8 - LENGTH.size}"
            )
        written = self._words.load(WRITE_POSITION)
        lap, offset = written >> 32, written & LOW_32
        # Room for the next wrap mark has to be left as well.
        if offset + total + LENGTH.size >= self._segment:
            self._invalidate(offset, self._segment + 1, lap)
            self.ring.write(offset, LENGTH.pack(WRAP))
            lap, offset = (lap + 1) & LOW_32, 0
            self._advance(lap, offset)
        self._invalidate(offset, offset + total, lap)
        self.ring.write(offset, LENGTH.pack(len(payload)) + payload)
        self._advance(lap, offset + total)
        self._wake_readers(written)

    def reader_count(self) -> int:
        """Registered readers, gone ones included that did not say so."""
        uids = (self._words.load(READER_UID + index) for index in range(self._reader_count()))
        return sum(uid != 0 for uid in uids)

    def all_read(self) -> bool:
        """Whether there are readers and each has received everything sent."""
        written = self._words.load(WRITE_POSITION)
        count = self._reader_count()
        return count > 0 and all(
            self._words.load(READ_POSITION + index) == written
            for index in range(count)
            if self._words.load(READER_VALID + index)
        )

    def close(self) -> None:
        """Close the ring; its file stays for readers and for the next publisher."""
        self.ring.close()

    def _reader_count(self) -> int:
        return min(self._words.load(READER_COUNT), MAX_READERS)

    def _wake_readers(self, written: int) -> None:
        """Wake every reader; `written` is the write position before this record.

        A reader that has read all of it is alive. One that lags may be dead, and its id may
        belong to a stranger by now whom the signal would kill, so that is looked up first.
        """
        for index in range(self._reader_count()):
            thread = self._words.load(READER_UID + index) & LOW_32
            keeps_up = self._words.load(READ_POSITION + index) == written
            if keeps_up or survives_wakeup(thread):
                self._wake(thread)

    def _evict_readers(self) -> None:
        """Forget all readers, dead ones too, and wake the living so that they register again."""
        uids = [self._words.load(READER_UID + index) for index in range(MAX_READERS)]
        self._words.store(READER_COUNT, 0)
        for index in range(MAX_READERS):
            self._words.store(READER_VALID + index, 0)
            self._words.store(READER_UID + index, 0)
        for thread in {uid & LOW_32 for uid in uids}:
            if survives_wakeup(thread):
                self._wake(thread)

    def _invalidate(self, start: int, end: int, lap: int) -> None:
        """Tell readers whose next record lies in the area, from an earlier lap, that it is lost."""
        for index in range(self._reader_count()):
            position = self._words.load(READ_POSITION + index)
            if start <= position & LOW_32 < end and position >> 32 != lap:
                self._words.store(READER_VALID + index, 0)
        self._words.fence()

    def _advance(self, lap: int, offset: int) -> None:
        self._words.fence()
        self._words.store(WRITE_POSITION, packed(lap, offset))

    def _start_smaller_lap(self) -> None:
        """Another program has made the file shorter: go on in what is left of it.

        A file that has become longer changes nothing: readers know the length as it was.
        """
        self._segment = self.ring.segment
        lap = self._words.load(WRITE_POSITION) >> 32
        for index in range(MAX_READERS):
            self._words.store(READER_VALID + index, 0)
        self._words.fence()
        self._advance(lap + 1, 0)
