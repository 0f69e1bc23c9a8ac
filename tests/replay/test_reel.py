"""Reels, loops, rings and making ahead."""

import threading
from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import pytest

from modeld.cameras.frame import EndOfStreamError
from modeld.errors import ModeldError
from modeld.replay.reel import FrameRing, Moment, Prefetch, Reel, loop


def moments(numbers: Iterator[int]) -> Iterator[Moment]:
    return (Moment(np.array([number % 256], np.uint8)) for number in numbers)


def test_a_reel_plays_forward() -> None:
    reel = Reel(moments(iter(range(10, 14))), first=10)
    assert reel.at(10).narrow[0] == 10
    assert reel.at(10).narrow[0] == 10  # the wide camera asks for the same moment
    assert reel.at(12).narrow[0] == 12
    with pytest.raises(ValueError, match="moment 11 is gone"):
        reel.at(11)
    with pytest.raises(EndOfStreamError):
        reel.at(14)


@pytest.mark.parametrize("ready", [False, True])
def test_a_loop_repeats_the_first_moments_without_making_them_again(ready: bool) -> None:
    made: list[int] = []

    def make() -> Iterator[Moment]:
        for number in count():
            made.append(number)
            yield Moment(np.array([number], np.uint8))

    played = loop(make(), 3, ready)
    first = next(played)
    assert made == ([0, 1, 2] if ready else [0])
    assert [int(m.narrow[0]) for m in [first, *islice(played, 7)]] == [0, 1, 2, 0, 1, 2, 0, 1]
    assert made == [0, 1, 2]


def test_a_loop_of_fewer_moments_repeats_those_and_of_none_ends() -> None:
    assert [m.narrow[0] for m in islice(loop(moments(iter([4, 5])), 20), 5)] == [4, 5, 4, 5, 4]
    assert list(loop(moments(iter([])), 20)) == []


def test_ring_buffers_are_page_aligned_and_come_back_in_turn() -> None:
    ring = FrameRing(3, 5000)
    buffers = [ring.take() for _ in range(4)]
    assert {b.ctypes.data % 4096 for b in buffers} == {0}
    assert {b.shape for b in buffers} == {(5000,)}
    assert len({b.ctypes.data for b in buffers[:3]}) == 3
    assert buffers[3] is buffers[0]
    buffers[0][:] = 7  # writable


def test_made_ahead_keeps_the_order_and_the_end() -> None:
    ahead = Prefetch(iter(range(50)))
    assert list(ahead) == list(range(50))
    with pytest.raises(StopIteration):
        next(ahead)
    ahead.close()


def test_made_ahead_gives_an_error_where_it_happened_and_again() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ModeldError("broken after picture 1")

    ahead = Prefetch(broken())
    assert next(ahead) == 1
    for _ in range(2):
        with pytest.raises(ModeldError, match="broken after picture 1"):
            next(ahead)
    ahead.close()


def test_closing_ends_the_thread_although_nobody_takes_the_items() -> None:
    ahead = Prefetch(count())
    assert next(ahead) == 0
    ahead.close()
    assert "decode" not in {thread.name for thread in threading.enumerate()}
