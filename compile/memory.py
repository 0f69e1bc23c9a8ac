"""Where every tensor lies: one weights buffer, one arena, packed inputs and outputs.

Scratch memory is shared between intermediates whose lifetimes (first to last launch that touches
them) do not overlap, so no two live tensors meet and no launch sees overlapping ranges.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from compile.capture import Capture, Operand
from modeld.manifest import Argument, Binding, Buffer, Contract, Tensor

# The largest base-address alignment met on OpenCL devices (NVIDIA); others want 128 or less.
ALIGNMENT = 512

IMAGE_INPUT = "new_img"
INPUTS_BUFFER = "inputs"
OUTPUTS_BUFFER = "outputs"
WEIGHTS_BUFFER = "weights"
ARENA_BUFFER = "arena"


_ROLES = {
    IMAGE_INPUT: "input",
    INPUTS_BUFFER: "input",
    OUTPUTS_BUFFER: "output",
    WEIGHTS_BUFFER: "weights",
    ARENA_BUFFER: "arena",
}


@dataclass(frozen=True)
class Range:
    """Bytes [offset, offset + bytes) of a buffer."""

    buffer: str
    offset: int
    bytes: int


@dataclass(frozen=True)
class MemoryPlan:
    """Buffers, where the contract's tensors lie in them, and the range of every storage."""

    buffers: tuple[Buffer, ...]
    bindings: tuple[Binding, ...]
    ranges: tuple[Range, ...]
    alignment: int

    def argument(self, operand: Operand) -> Argument:
        """The launch argument for an operand."""
        place = self.ranges[operand.storage]
        offset = place.offset + operand.offset
        return Argument(place.buffer, offset, operand.bytes, operand.access, operand.image)


def plan_memory(
    capture: Capture,
    contract: Contract,
    extra_inputs: Sequence[Tensor] = (),
    alignment: int = ALIGNMENT,
) -> MemoryPlan:
    """Place the capture's storages; `extra_inputs` join the packed inputs (run_warp's).

    Offsets are multiples of `alignment` bytes, a power of two.
    """
    states = {name for pair in contract.state for name in (pair.input, pair.output)}
    inputs = [t for t in contract.inputs if t.name not in states]
    packed = [*extra_inputs, *(t for t in inputs if t.name != IMAGE_INPUT)]
    images = [t for t in inputs if t.name == IMAGE_INPUT]
    outputs = [t for t in contract.outputs if t.name not in states]
    kept = [t for t in (*contract.inputs, *contract.outputs) if t.name in states]

    bindings = [
        *_pack(INPUTS_BUFFER, packed, alignment),
        *(Binding(t.name, t.name, 0, tensor_bytes(t)) for t in (*images, *kept)),
        *_pack(OUTPUTS_BUFFER, outputs, alignment),
    ]
    places = {b.tensor: Range(b.buffer, b.offset, b.bytes) for b in bindings}
    internal = _place_weights(capture, alignment) | _plan_arena(capture, alignment)
    ranges = tuple(
        internal[index] if index in internal else places[storage.name]
        for index, storage in enumerate(capture.storages)
    )
    ends = _ends([*places.values(), *internal.values()])
    buffers = tuple(
        Buffer(name, size, "state" if name in states else _ROLES[name])
        for name, size in sorted(ends.items())
    )
    return MemoryPlan(buffers, tuple(bindings), ranges, alignment)


def tensor_bytes(tensor: Tensor) -> int:
    """Bytes of a contract tensor."""
    return int(np.prod(tensor.shape, dtype=np.int64)) * np.dtype(tensor.dtype).itemsize


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _pack(buffer: str, tensors: Iterable[Tensor], alignment: int) -> list[Binding]:
    bindings, offset = [], 0
    for tensor in tensors:
        size = tensor_bytes(tensor)
        bindings.append(Binding(tensor.name, buffer, offset, size))
        offset += _aligned(size, alignment)
    return bindings


def _ends(ranges: Iterable[Range]) -> dict[str, int]:
    ends: dict[str, int] = {}
    for place in ranges:
        # One byte at least: OpenCL has no empty buffer, though tensors may be without elements.
        ends[place.buffer] = max(ends.get(place.buffer, 1), place.offset + place.bytes)
    return ends


def _place_weights(capture: Capture, alignment: int) -> dict[int, Range]:
    ranges, offset = {}, 0
    for index, storage in enumerate(capture.storages):
        if storage.role == "weight":
            ranges[index] = Range(WEIGHTS_BUFFER, offset, storage.bytes)
            offset += _aligned(storage.bytes, alignment)
    return ranges


def lifetimes(capture: Capture) -> dict[int, tuple[int, int]]:
    """First and last launch that touch each scratch storage."""
    spans: dict[int, tuple[int, int]] = {}
    for position, launch in enumerate(capture.launches):
        for operand in launch.operands:
            if capture.storages[operand.storage].role == "scratch":
                first, _ = spans.get(operand.storage, (position, position))
                spans[operand.storage] = (first, position)
    return spans


def _plan_arena(capture: Capture, alignment: int) -> dict[int, Range]:
    """Offsets by the greedy rule for static plans: largest first, each at the lowest gap."""
    spans = lifetimes(capture)
    placed: list[tuple[int, int, int]] = []  # offset, end, storage
    result = {}
    sizes = {index: capture.storages[index].bytes for index in spans}
    for index in sorted(spans, key=lambda i: (-sizes[i], spans[i], i)):
        first, last = spans[index]
        size = _aligned(sizes[index], alignment)
        offset = 0
        for start, end, other in sorted(placed):
            other_first, other_last = spans[other]
            if other_last < first or last < other_first:
                continue
            if start - offset >= size:
                break
            offset = max(offset, end)
        placed.append((offset, offset + size, index))
        result[index] = Range(ARENA_BUFFER, offset, sizes[index])
    return result
