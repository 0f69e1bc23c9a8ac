"""Kernel launches, prepared once: arguments bound for even and for odd turns.

Recurrent state is never updated in place. Each state pair has two buffers whose roles swap after
every `run_model`; a launch that touches one has a second kernel object with the roles exchanged.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyopencl as cl

from modeld.device_memory import DeviceMemory
from modeld.errors import ModeldError
from modeld.manifest import Argument, Binding, Call, EntryPoint, StatePair
from modeld.programs import Programs, opencl_errors


@dataclass(frozen=True, slots=True)
class Launch:
    """One call with its kernels for even and odd turns (one object where they agree)."""

    call: Call
    kernels: tuple[cl.Kernel, cl.Kernel]
    # (argument index, frame buffer or input): what is bound anew for every turn.
    rebound: tuple[tuple[int, str], ...]

    def reads(self, name: str) -> bool:
        """Whether it reads the frame buffer or input `name`."""
        return any(read == name for _, read in self.rebound)

    def bind(self, name: str, buffer: cl.Buffer) -> None:
        """Set the arguments that read the frame buffer or input `name`."""
        for index, read in self.rebound:
            if read == name:
                for kernel in self.kernels:
                    kernel.set_arg(index, buffer)


# What was launched, and the event that times it.
LaunchEvent = tuple[Call, cl.Event]


def swapped_roles(state: Sequence[StatePair], bindings: Mapping[str, Binding]) -> dict[str, str]:
    """Buffer -> the buffer that plays its part in odd turns."""
    pairs = [(bindings[pair.input].buffer, bindings[pair.output].buffer) for pair in state]
    return {**dict(pairs), **{output: entry for entry, output in pairs}}


def prepare_launches(
    entry: EntryPoint, programs: Programs, memory: DeviceMemory, swap: Mapping[str, str]
) -> list[Launch]:
    """Bind the arguments of every call of `entry`. Raises ModeldError for one that does not fit."""
    with opencl_errors(f"preparing {entry.name}"):
        return [_prepare(call, programs, memory, swap) for call in entry.calls]


def enqueue(queue: cl.CommandQueue, launches: Sequence[Launch], parity: int) -> list[LaunchEvent]:
    """Enqueue all launches in order; `parity` is 0 in even turns and 1 in odd ones."""
    return [
        (
            launch.call,
            cl.enqueue_nd_range_kernel(
                queue, launch.kernels[parity], launch.call.global_size, launch.call.local_size
            ),
        )
        for launch in launches
    ]


def _prepare(
    call: Call, programs: Programs, memory: DeviceMemory, swap: Mapping[str, str]
) -> Launch:
    even = programs.kernel(call.program, call.kernel)
    if even.num_args != len(call.arguments):
        raise ModeldError(
            f"kernel {call.kernel} takes {even.num_args} arguments, the manifest gives "
            f"{len(call.arguments)}; build the artifact again"
        )
    swaps = any(argument.buffer in swap for argument in call.arguments)
    odd = programs.kernel(call.program, call.kernel) if swaps else even
    rebound = []
    for index, argument in enumerate(call.arguments):
        if name := memory.rebound_name(argument):
            rebound.append((index, name))
            continue
        even.set_arg(index, memory.view(argument))
        if swaps:
            odd.set_arg(index, memory.view(_swapped(argument, swap)))
    return Launch(call, (even, odd), tuple(rebound))


def _swapped(argument: Argument, swap: Mapping[str, str]) -> Argument:
    return dataclasses.replace(argument, buffer=swap.get(argument.buffer, argument.buffer))
