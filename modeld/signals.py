"""Ending a command from outside: by Ctrl-C, by a service manager, by a terminal that closes."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A process that a signal ended has this and the signal's number as its exit status.
_EXIT_BASE = 128
_AGAIN_S = 0.01


class StoppedError(KeyboardInterrupt):
    """The process was asked to end; raised wherever it is, so that everything is cleaned up.

    `where` tells users how far the work had come, and what is left of it.
    """

    def __init__(self, number: int, where: str = "") -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} {where}".rstrip())
        self.number = number
        self.exit_code = _EXIT_BASE + number


class Stop(threading.Event):
    """Set by the first signal, whose number is then in `number`."""

    number = 0


@contextmanager
def raising_on_signals() -> Iterator[None]:
    """Within the block a signal raises StoppedError in the main thread.

    In a destructor or a callback that would be lost, and the work would go on: it is raised again.
    """
    before = sys.unraisablehook

    def raise_again(lost: "sys.UnraisableHookArgs") -> None:
        if isinstance(lost.exc_value, StoppedError):
            # Later: now it would be lost here.
            threading.Timer(_AGAIN_S, _send_again, [lost.exc_value.number]).start()
        else:
            before(lost)

    sys.unraisablehook = raise_again
    try:
        with _handled(_raise):
            yield
    finally:
        sys.unraisablehook = before


@contextmanager
def finishing_on_signals() -> Iterator[Stop]:
    """Within the block the first signal sets the event given; a second one raises StoppedError."""
    stop = Stop()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            _raise(number, frame)
        stop.number = number
        stop.set()

    with _handled(handle):
        yield stop


@contextmanager
def keeping_signals() -> Iterator[list[int]]:
    """Within the block signals end nothing, whichever thread they come to; they are in the list."""
    kept: list[int] = []
    with _handled(lambda number, _: kept.append(number)):
        yield kept


def tell_stopped(stop: Stop, where: str) -> int:
    """The exit status of work that `stop` may have cut short; `where` says on stderr how far."""
    if not stop.is_set():
        return 0
    stopped = StoppedError(stop.number, where)
    sys.stderr.write(f"modeld: {stopped}\n")
    return stopped.exit_code


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # no place to handle signals, and none where they arrive
        return
    # What the caller ignores stays ignored: that is how nohup works.
    numbers = [n for n in ENDING_SIGNALS if signal.getsignal(n) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def _send_again(number: int) -> None:
    if signal.getsignal(number) is _raise:  # the block has not ended meanwhile
        os.kill(os.getpid(), number)


def _raise(number: int, frame: FrameType | None) -> None:
    raise StoppedError(number)
