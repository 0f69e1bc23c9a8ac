"""Keeps processors from sleeping while the launches of a turn follow each other.

A CPU device hands every launch to its worker threads. A processor that went to sleep since the
launch before takes tens of microseconds to wake, as long as many launches take. Linux lets a
process bound that for all processors: docs.kernel.org/power/pm_qos_interface.html
"""

import os
import struct
import weakref
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType

DEVICE = Path("/dev/cpu_dma_latency")
# Microseconds, in a native 32-bit integer. The second is the kernel's own word for no bound.
_AT_ONCE = struct.pack("=i", 0)
_WHENEVER = struct.pack("=i", 2_000_000_000)


class WakeLatency:
    """A context in which no processor sleeps; `bounded_wake_latency` makes one."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def __enter__(self) -> None:
        os.write(self._descriptor, _AT_ONCE)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.write(self._descriptor, _WHENEVER)


def bounded_wake_latency(device: Path = DEVICE) -> AbstractContextManager[None]:
    """To be entered for each turn; does nothing where `device` may not be written."""
    try:
        descriptor = os.open(device, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return nullcontext()
    return WakeLatency(descriptor)
