"""Pictures of a device's cameras, moment by moment, from whatever makes them."""

import mmap
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, Self, TypeVar

import numpy as np

from modeld.cameras.frame import EndOfStreamError
from modeld.replay.scene import Floats
from modeld.replay.video import Bytes

# Decoding runs this far ahead of the moment, so that a slow picture does not come late.
_AHEAD = 6
# One being made, those ahead, the one looked at, and the one before it, which a late reader holds.
RING_SIZE = _AHEAD + 4


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant: NV12 buffers of both cameras, `wide` None on a one-camera device.

    `speed` in m/s where the recording knows it better than its profile, `truth` the lines (n, 3)
    that are really there, in metres in the calibrated frame, where that is known.
    """

    narrow: Bytes
    wide: Bytes | None = None
    speed: float | None = None
    truth: tuple[Floats, ...] = ()


class FrameRing:
    """Frame buffers used in turn, as a camera's are: at fixed, page-aligned places.

    A buffer comes back after `count` others; whoever keeps one longer must copy it.
    """

    def __init__(self, count: int, size: int) -> None:
        self._buffers = [np.frombuffer(mmap.mmap(-1, size), np.uint8) for _ in range(count)]
        self._next = 0

    def take(self) -> Bytes:
        """The buffer that was taken longest ago, with whatever is in it."""
        buffer = self._buffers[self._next]
        self._next = (self._next + 1) % len(self._buffers)
        return buffer


class Reel:
    """Numbered moments, played forward once."""

    def __init__(self, moments: Iterator[Moment], first: int = 0) -> None:
        """`first` is the number of the first moment that `moments` gives."""
        self._moments = moments
        self._number = first - 1
        self._current: Moment | None = None

    def at(self, number: int) -> Moment:
        """The moment of that number, at or after the last one asked for.

        Raises EndOfStreamError after the last moment, ValueError for one already gone.
        """
        if number < self._number:
            raise ValueError(f"moment {number} is gone, the reel is at {self._number}")
        while self._current is None or self._number < number:
            self._current = next(self._moments, None)
            if self._current is None:
                raise EndOfStreamError
            self._number += 1
        return self._current


def loop(moments: Iterator[Moment], count: int, ready: bool = False) -> Iterator[Moment]:
    """The first `count` moments kept in memory and repeated for ever, costing no time.

    With `ready` all of them are made before the first is given, for makers slower than time.
    """
    kept = list(islice(moments, count)) if ready else []
    for moment in islice(moments, count - len(kept)):
        kept.append(moment)
        yield moment
    while kept:
        yield from kept


Item = TypeVar("Item")


class Prefetch(Generic[Item]):
    """Makes items in a thread of its own, a few ahead; errors appear where they would have."""

    def __init__(self, items: Iterator[Item], ahead: int = _AHEAD) -> None:
        self._queue: queue.Queue[Item | _Ended] = queue.Queue(ahead)
        self._items = items
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="decode", daemon=True)
        self._thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        item = self._queue.get()
        if isinstance(item, _Ended):
            self._queue.put(item)  # so that asking again gives the same answer
            raise item.error
        return item

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        while not self._queue.empty():
            self._queue.get_nowait()
        self._thread.join()

    def _run(self) -> None:
        try:
            for item in self._items:
                if not self._put(item):
                    return
            self._put(_Ended(StopIteration()))
        except Exception as error:  # noqa: BLE001 — handed to the thread that asked, whatever it is
            self._put(_Ended(error))

    def _put(self, item: "Item | _Ended") -> bool:
        while not self._closed.is_set():
            try:
                self._queue.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False


@dataclass(frozen=True, slots=True)
class _Ended:
    """Why nothing more comes."""

    error: Exception
