"""Processes that work for this one: they end with it, and by no signal that is meant for it."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process, resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess

from tinygrad.engine import worker

from modeld.signals import ENDING_SIGNALS, keeping_signals


class WorkerProcess(worker._WorkerProcess):  # type: ignore[misc]
    """A terminal, `timeout` and a service manager signal all processes of a group at once.

    A worker that ended by that may hold its pool's lock, for which the parent would wait for ever;
    and until it has imported what it ignores signals with, it would end in a traceback.
    """

    terminate = SpawnProcess.kill  # what pools end workers with; SIGTERM does not reach them

    @staticmethod
    def _Popen(process: BaseProcess) -> object:
        with keeping_signals() as kept, _signals_blocked():
            started = worker._WorkerProcess._Popen(process)
        try:
            for number in kept:
                signal.raise_signal(number)
        except BaseException:  # no pool knows the process yet
            started.kill()
            started.wait()
            raise
        return started

    def run(self) -> None:
        """Work, until the parent says so or is gone, also by SIGKILL."""
        threading.Thread(target=_end_after, args=(parent_process(),), daemon=True).start()
        super().run()


class WorkerContext(SpawnContext):
    """For pools; forking a process that has a GPU open breaks it."""

    Process = WorkerProcess

    def __init__(self) -> None:
        # Started now, since by itself it would start without SIGHUP blocked.
        with _signals_blocked():
            resource_tracker.ensure_running()


# tinygrad makes its pool of compile processes from this.
worker._WorkerContext = WorkerContext


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """What is started meanwhile keeps them blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
