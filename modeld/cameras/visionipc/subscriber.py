"""The reading end of a ring."""

import threading

from modeld.cameras.visionipc.counters import Fault, StreamCounters
from modeld.cameras.visionipc.ring import (
    LENGTH,
    LOW_32,
    READ_POSITION,
    READER_UID,
    READER_VALID,
    WRAP,
    WRITE_POSITION,
    Ring,
    aligned,
    new_uid,
    packed,
    unread_bytes,
)
from modeld.cameras.visionipc.slots import claim_slot, release_slot
from modeld.cameras.visionipc.wakeup import expect_wakeups

# One read call fetches a length and what most rings of VisionIPC carry behind it.
_FIRST_READ = LENGTH.size + 48


class Subscriber:
    """Receives the records of one ring, in order, or only the newest with `conflate`.

    It registers at the first `receive` or `register`, in the thread that calls it, which is
    then woken for each record (see `wakeup`). It owns one slot until it is closed: it registers
    again only when another program has taken the slot, and then continues where it was if the
    writer has not come round meanwhile.

    Order of memory: a record is read after the write position that covers it, and the flag by
    which the writer takes records back is read after the record, with a fence between.
    """

    def __init__(self, ring: Ring, conflate: bool, counters: StreamCounters) -> None:
        self.ring = ring
        self.unread = 0  # bytes behind the record received last
        self._words = ring.words
        self._conflate = conflate
        self._counters = counters
        self._slot = -1
        self._uid = 0
        self._load_written = ring.words.loader(WRITE_POSITION)
        self._load_uid = self._load_written
        self._load_valid = self._load_written
        self._position = 0
        self._joined = False

    def receive(self) -> bytes | None:
        """The next record, or None when there is none now. Never waits.

        A damaged or overrun ring costs the records up to the newest one and is counted.
        """
        if not self.register():
            return None
        while True:
            if not self._load_valid():
                self._join()
            read, written = self._position, self._load_written()
            unread = unread_bytes(read, written, self.ring.segment)
            if unread is None:
                self._restart("overrun", "this reader was a whole lap behind the writer")
            elif unread == 0:
                return None
            else:
                record = self._read(read, written)
                if record is not None:
                    return record

    def register(self) -> bool:
        """Become a reader if this is none yet or none any more; False while no slot is free."""
        if self._slot >= 0 and self._load_uid() == self._uid:
            if self._uid & LOW_32 == threading.get_native_id():
                return True
            expect_wakeups()
            uid = new_uid()
            if self._words.compare_exchange(READER_UID + self._slot, self._uid, uid):
                self._uid = uid
                return True
        if self._slot >= 0:
            self._counters.fault("evicted", f"{self.ring.path}: our reader slot was taken")
        return self._register()

    def close(self) -> None:
        """Leave the slot to others and close the ring."""
        if self._slot >= 0:
            release_slot(self._words, self._slot, self._uid)
            self._slot = -1
        self.ring.close()

    def _register(self) -> bool:
        expect_wakeups()
        self._uid = new_uid()
        slot = claim_slot(self._words, self._uid, self.ring.measure())
        if slot is None:
            self._slot = -1
            self._counters.fault(
                "no_slot", f"{self.ring.path}: all 15 reader slots are in use; close a reader"
            )
            return False
        self._slot = slot
        self._load_uid = self._words.loader(READER_UID + slot)
        self._load_valid = self._words.loader(READER_VALID + slot)
        self._join()
        return True

    def _join(self) -> None:
        """Become a valid reader, at the last position if the writer cannot have passed it.

        A record is at most a third of the segment and at most as much again is left unused at
        its end, so a writer with less than a third unread cannot reach us unnoticed.
        """
        if not self._joined:
            self._position = self._words.load(WRITE_POSITION)
            self._joined = True
        self._move(self._position)
        self._words.store(READER_VALID + self._slot, 1)
        self._words.fence()
        unread = unread_bytes(self._position, self._words.load(WRITE_POSITION), self.ring.segment)
        if unread is None or unread > self.ring.segment // 3:
            self._restart("overrun", "the writer came round and destroyed unread records")

    def _restart(self, kind: Fault, what: str) -> None:
        """Give up what is unread and go on with the next record written."""
        self._counters.fault(kind, f"{self.ring.path}: {what}; continuing with the newest")
        self.ring.measure()
        self._move(self._words.load(WRITE_POSITION))
        self._words.store(READER_VALID + self._slot, 1)

    def _read(self, read: int, written: int) -> bytes | None:
        """Take the record at `read`; None when it was a wrap, damaged, overwritten or skipped."""
        lap, offset = read >> 32, read & LOW_32
        head = self.ring.read(offset, _FIRST_READ)
        if not self._valid_after_reading():
            return None
        length = LENGTH.unpack_from(head)[0] if len(head) >= LENGTH.size else 0
        same_lap = lap == written >> 32
        if length == WRAP and not same_lap:
            self._move(packed(lap + 1, 0))
            return None
        end = aligned(offset + LENGTH.size + length)
        if length <= 0 or end > (written & LOW_32 if same_lap else self.ring.segment):
            self._restart("corrupt", f"a record at {offset} claims {length} bytes")
            return None
        position = packed(lap, end)
        if self._conflate and position != written:
            self._move(position)
            self._counters.skipped += 1
            return None
        record = head[LENGTH.size : LENGTH.size + length]
        if len(record) < length:
            record = self.ring.read(offset + LENGTH.size, length)
            if not self._valid_after_reading():
                return None
        self._move(position)
        self.unread = unread_bytes(position, written, self.ring.segment) or 0
        return record

    def _valid_after_reading(self) -> bool:
        """Whether what was just copied was intact: writers invalidate before they overwrite."""
        self._words.fence()
        return self._load_valid() != 0

    def _move(self, position: int) -> None:
        self._position = position
        self._words.store(READ_POSITION + self._slot, position)
