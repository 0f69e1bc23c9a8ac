"""tinygrad's pool of compile processes, out of reach of the terminal's Ctrl-C."""

import signal
from multiprocessing.pool import Pool

from tinygrad.engine.worker import get_worker_pool


def workers() -> Pool | None:
    """The pool, started if need be; None where work is to stay in this process.

    A terminal interrupts every process it started. The workers learn to ignore it only after a
    second of imports; until then each would answer with a traceback. What is blocked here stays
    blocked in them and in those that replace them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        pool: Pool | None = get_worker_pool()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pool
