"""A reader's place in a ring: one of 15 slots that no program ever frees.

msgq's own readers take a new slot each time they open a ring, and the sixteenth throws all the
others out. So a slot is taken here only when none can be reused, never by throwing everyone
out, and it is marked as free when its reader leaves.
"""

from modeld.cameras.visionipc.atomics import AtomicWords
from modeld.cameras.visionipc.ring import (
    LOW_32,
    MAX_READERS,
    READ_POSITION,
    READER_COUNT,
    READER_UID,
    READER_VALID,
    WRITE_POSITION,
    unread_bytes,
)
from modeld.cameras.visionipc.wakeup import thread_exists

# A reader that looks at least every 100 ms is never this far behind (70 pictures, 3.5 s).
STALE_BYTES = 4096


def claim_slot(words: AtomicWords, uid: int, segment: int) -> int | None:
    """Make a slot ours; None when 15 readers are alive and keeping up.

    In order: a slot whose reader has left or died, an unused slot, the slot of the reader that
    is furthest behind. A live reader that loses its slot notices and registers again.
    """
    while True:
        count = min(words.load(READER_COUNT), MAX_READERS)
        for index in range(count):
            owner = words.load(READER_UID + index)
            if not thread_exists(owner & LOW_32) and _take(words, index, owner, uid):
                return index
        if count == MAX_READERS:
            return _claim_stale(words, uid, segment)
        if words.compare_exchange(READER_COUNT, count, count + 1):
            words.store(READER_VALID + count, 0)
            words.store(READ_POSITION + count, 0)
            words.store(READER_UID + count, uid)
            return count


def release_slot(words: AtomicWords, index: int, uid: int) -> None:
    """Leave a slot for the next reader, so that no signal is sent to our thread's id any more."""
    if words.load(READER_UID + index) == uid:
        words.store(READER_VALID + index, 0)
        words.compare_exchange(READER_UID + index, uid, 0)


def _take(words: AtomicWords, index: int, owner: int, uid: int) -> bool:
    return words.compare_exchange(READER_UID + index, owner, uid)


def _claim_stale(words: AtomicWords, uid: int, segment: int) -> int | None:
    written = words.load(WRITE_POSITION)
    behind: list[tuple[int, int, int]] = []
    for index in range(MAX_READERS):
        owner = words.load(READER_UID + index)
        unread = unread_bytes(words.load(READ_POSITION + index), written, segment)
        if unread is None or not words.load(READER_VALID + index):
            unread = segment
        behind.append((unread, index, owner))
    unread, index, owner = max(behind)
    if unread >= STALE_BYTES and _take(words, index, owner, uid):
        return index
    return None
