"""Compiling many programs at once, in processes of their own.

PoCL compiles one program at a time in a process, and the compiler keeps the memory that it took.
Where the binary of a program is whole once it is built, other processes can make it: on all
cores, and without the compiler's memory in this one.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from select import select
from typing import IO

import pyopencl as cl

import modeld
from modeld.compiler_process import read_block, write_block
from modeld.opencl import list_devices

# Others hand out binaries that lack what they compile at the first launch, or are quick.
_PLATFORMS = ("Portable Computing Language",)
# Fewer are compiled in the time that it takes to start processes.
_WORTHWHILE = 6
# Each takes some 250 MB while it works.
_MOST_PROCESSES = 4


def compile_together(
    device: cl.Device,
    sources: Mapping[str, bytes],
    options: str,
    on_compiled: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, bytes]:
    """Binaries of `sources` for `device`, by the names given.

    What is missing in the result must be compiled in this process: everything where that is as
    quick, else what failed. `on_compiled` is told (programs done, programs in all).
    """
    if device.platform.name not in _PLATFORMS or len(sources) < _WORTHWHILE:
        return {}
    command = _command(list_devices().index(device), options)
    # The longest last, where they are taken from: no process is left with one at the end.
    waiting = sorted(sources, key=lambda name: len(sources[name]))
    binaries: dict[str, bytes] = {}
    with ExitStack() as stack:
        processes = min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)
        pipes = [stack.enter_context(_process(command)) for _ in range(processes)]
        at_work: dict[IO[bytes], tuple[IO[bytes], str]] = {}
        ready = pipes
        while True:
            for given, taken in ready:
                if waiting and _send(given, sources[waiting[-1]]):
                    at_work[taken] = given, waiting.pop()
            if not at_work:
                return binaries
            on_compiled(len(sources) - len(waiting) - len(at_work), len(sources))
            ready = []
            for taken in select(list(at_work), [], [])[0]:
                given, name = at_work.pop(taken)
                if binary := read_block(taken):
                    binaries[name] = binary
                if binary is not None:
                    ready.append((given, taken))


def _command(device: int, options: str) -> list[str]:
    # -P: nothing is imported from the folder in which this process happens to be.
    return [sys.executable, "-P", "-m", "modeld.compiler_process", str(device), options]


@contextmanager
def _process(command: list[str]) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """A process that compiles: its stdin and stdout."""
    paths = [str(Path(modeld.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        # Signals from the terminal are for this process, which then ends the other.
        start_new_session=True,
    )
    if process.stdin is None or process.stdout is None:  # cannot be, with PIPE
        raise RuntimeError("a process without pipes")
    try:
        yield process.stdin, process.stdout
    finally:
        # It has nothing to lose, and a kernel that takes minutes must not delay an interrupt.
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):  # what the dead process did not read any more
                stream.close()


def _send(stream: IO[bytes], source: bytes) -> bool:
    """Whether the process at the other end still lives."""
    try:
        write_block(stream, source)
    except OSError:
        return False
    return True
