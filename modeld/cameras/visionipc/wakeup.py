"""How a publisher wakes a reader: SIGUSR2, sent to the very thread that registered.

A reader blocks the signal and fetches it with sigtimedwait. So no handler has to be installed,
a wake-up between the last look and the wait is kept pending, and the signal's default action,
which ends a process, never happens.
"""

import ctypes
import errno
import functools
import platform
import signal
from collections.abc import Callable
from pathlib import Path

from modeld.errors import ModeldError

# Number of the tkill system call; libc has no function for it. Source: the kernel's
# syscall_64.tbl and, for all newer architectures, asm-generic/unistd.h.
_TKILL = {"x86_64": 200, "aarch64": 130, "riscv64": 130, "loongarch64": 130}

_MASKS = ("SigBlk:", "SigIgn:", "SigCgt:")


@functools.cache
def _tkill() -> Callable[[int, int], int]:
    machine = platform.machine()
    number = _TKILL.get(machine)
    if number is None:
        known = ", ".join(sorted(_TKILL))
        raise ModeldError(
            f"no tkill system call known for CPU {machine!r}: VisionIPC runs on {known}"
        )
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_long)
    syscall.restype = ctypes.c_long

    def call(thread: int, signal_number: int) -> int:
        return 0 if syscall(number, thread, signal_number) == 0 else ctypes.get_errno()

    return call


def require_wakeups() -> None:
    """Raise ModeldError on a CPU whose system calls are not known."""
    _tkill()


def wake(thread: int) -> None:
    """Wake the thread with this id; one that has gone is no error."""
    _tkill()(thread, signal.SIGUSR2)


def thread_exists(thread: int) -> bool:
    """Whether a thread of this id runs in our process-id namespace."""
    return thread > 0 and _tkill()(thread, 0) not in (errno.ESRCH, errno.EINVAL)


def expect_wakeups() -> None:
    """Make the calling thread safe to be woken; needed once, before its id is published.

    The signal stays blocked for good: one sent to a reader that has just left may come late.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})


def ignore_late_wakeups() -> None:
    """Let no wake-up end this process, blocked or not; for the main thread, before OpenCL compiles.

    Drivers that are built on LLVM handle SIGTERM themselves: they put back the signals' former
    actions and unblock all signals of the thread, and one that was pending would act then. A
    blocked signal is kept pending although it is ignored, so waiting for it still works.
    """
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)


def survives_wakeup(thread: int) -> bool:
    """Whether a thread blocks, handles or ignores the signal.

    An id left in a ring by a dead reader may belong to a stranger by now.
    """
    try:
        status = Path(f"/proc/{thread}/status").read_text()
    except OSError:
        return False
    masks = [line.split()[1] for line in status.splitlines() if line.startswith(_MASKS)]
    return any(int(mask, 16) >> (signal.SIGUSR2 - 1) & 1 for mask in masks)


def wait_for_wakeup(seconds: float) -> bool:
    """Sleep until this thread is woken, at most `seconds`; whether it was."""
    return signal.sigtimedwait((signal.SIGUSR2,), max(seconds, 0.0)) is not None
