"""Compiling OpenCL programs on all cores, through the driver's own cache.

A driver compiles one program at a time in a process, PoCL even only at the first launch. Where it
keeps what it compiled on disk, other processes can fill that cache first; the build then finds
every program there.
"""

import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyopencl as cl

from compile.capture import Capture
from compile.device import BUILD_OPTIONS
from compile.workers import workers
from modeld.opencl import list_devices

# Drivers that are known to share compiled programs between processes.
_SHARING_PLATFORMS = ("Portable Computing Language",)

# A program takes a second or two. A worker that died (a kernel can crash its process) answers
# never; then the programs are compiled where they are needed.
_PATIENCE_S = 300.0

# tinygrad's workers are replaced after some pieces of work, however large those are.
_PIECE = 3

# Fewer are compiled in the time it takes to start workers.
_WORTHWHILE = 4


@dataclass(frozen=True)
class _Task:
    device: int  # position in `list_devices`
    source: str
    kernel: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    argument_bytes: tuple[int, ...]


def prebuild(capture: Capture, device: cl.Device, on_built: Callable[[int, int], None]) -> None:
    """Make the driver's cache hold all programs of `capture`; `on_built` is told (done, all)."""
    pool = workers() if device.platform.name in _SHARING_PLATFORMS else None
    tasks = _tasks(capture, list_devices().index(device))
    if pool is None or len(tasks) < _WORTHWHILE:
        return
    # Dealt out like cards, so that every piece of work has large and small programs.
    pieces = -(-len(tasks) // _PIECE)
    results = pool.imap_unordered(_build, [tasks[n::pieces] for n in range(pieces)])
    for done in range(pieces):
        on_built(done * _PIECE, len(tasks))
        try:
            results.next(_PATIENCE_S)
        except multiprocessing.TimeoutError:
            return


def _tasks(capture: Capture, device: int) -> list[_Task]:
    tasks = [
        _Task(
            device,
            launch.source,
            launch.kernel,
            launch.global_size,
            launch.local_size,
            tuple(operand.bytes for operand in launch.operands),
        )
        for launch in capture.launches
        if all(operand.image is None for operand in launch.operands)
    ]
    unique = {(task.source, task.kernel, task.local_size): task for task in tasks}
    return sorted(unique.values(), key=lambda task: -len(task.source))


_queues: dict[int, cl.CommandQueue] = {}


def _build(tasks: Sequence[_Task]) -> None:
    """In a worker: build the programs and launch each once, on zeros."""
    for task in tasks:
        try:
            _launch(task)
        except cl.Error:
            # Whatever it is, the build meets it again in its own process and says so.
            continue


def _launch(task: _Task) -> None:
    if task.device not in _queues:
        _queues[task.device] = cl.CommandQueue(cl.Context([list_devices()[task.device]]))
    queue = _queues[task.device]
    # The same way of building as tinygrad's and the runtime's, so that the cache key is the same.
    program = cl._cl._Program(queue.context, task.source.encode())
    program._build(BUILD_OPTIONS.encode(), queue.context.devices)
    # tinygrad asks for the binary, for which PoCL compiles once more, for groups of any size.
    program.get_info(cl.program_info.BINARIES)
    kernel = cl.Kernel(cl.Program(program), task.kernel)
    buffers = _zeros(queue, task.argument_bytes)
    for index, buffer in enumerate(buffers):
        kernel.set_arg(index, buffer)
    cl.enqueue_nd_range_kernel(queue, kernel, task.global_size, task.local_size)
    queue.finish()


def _zeros(queue: cl.CommandQueue, sizes: Sequence[int]) -> list[cl.Buffer]:
    """Zeros, because kernels may take what they read for an index."""
    buffers = [cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size) for size in sizes]
    for buffer, size in zip(buffers, sizes, strict=True):
        cl.enqueue_fill_buffer(queue, buffer, b"\0", 0, size)
    return buffers
