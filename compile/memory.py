"""Where every tensor lies: one weights buffer, one arena, packed inputs and outputs.

Scratch memory is shared between intermediates whose lifetimes (first to last launch that touches
them) do not overlap, so no two live tensors meet and no launch sees overlapping ranges.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compile.capture import Capture, Storage
from modeld.manifest import Argument, Binding, Buffer, Contract, Tensor

# The largest base-address alignment met on OpenCL devices (NVIDIA); others want 128 or less.
ALIGNMENT = 512

IMAGE_INPUT = "new_img"
INPUTS_BUFFER = "inputs"
OUTPUTS_BUFFER = "outputs"
WEIGHTS_BUFFER = "weights"
ARENA_BUFFER = "arena"


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

    def argument(self, storage: int, offset: int, size: int, access: str) -> Argument:
        """The launch argument for bytes [offset, offset + size) of a storage."""
        place = self.ranges[storage]
        return Argument(place.buffer, place.offset + offset, size, access)


def plan_memory(
    capture: Capture, contract: Contract, extra_inputs: Sequence[Tensor] = ()
) -> MemoryPlan:
    """Place the capture's storages; `extra_inputs` join the packed inputs (run_warp's)."""
    states = {name for pair in contract.state for name in (pair.input, pair.output)}
    inputs = [t for t in contract.inputs if t.name not in states]
    packed = [*extra_inputs, *(t for t in inputs if t.name != IMAGE_INPUT)]
    images = [t for t in inputs if t.name == IMAGE_INPUT]
    outputs = [t for t in contract.outputs if t.name not in states]
    kept = [t for t in (*contract.inputs, *contract.outputs) if t.name in states]

    bindings = [
        *_pack(INPUTS_BUFFER, [(t.name, t.bytes) for t in packed]),
        *(Binding(t.name, t.name, 0, t.bytes) for t in images),
        *_pack(OUTPUTS_BUFFER, [(t.name, t.bytes) for t in outputs]),
        *(Binding(t.name, t.name, 0, t.bytes) for t in kept),
    ]
    weights = _pack(
        WEIGHTS_BUFFER,
        [(str(i), s.bytes) for i, s in enumerate(capture.storages) if s.role == "weight"],
    )
    scratch = _plan_arena(capture)
    placed = {binding.tensor: Range(binding.buffer, binding.offset, binding.bytes)
              for binding in bindings}
    by_index = {int(b.tensor): Range(b.buffer, b.offset, b.bytes) for b in weights} | scratch
    ranges = tuple(
        by_index[i] if i in by_index else placed[storage.name]
        for i, storage in enumerate(capture.storages)
    )
    roles = {name: "state" for name in states} | {IMAGE_INPUT: "input", INPUTS_BUFFER: "input",
             OUTPUTS_BUFFER: "output", WEIGHTS_BUFFER: "weights", ARENA_BUFFER: "arena"}
    ends = _ends([*placed.values(), *by_index.values()])
    buffers = tuple(Buffer(name, ends[name], roles[name]) for name in sorted(ends))
    return MemoryPlan(buffers, tuple(bindings), ranges)


def align(size: int) -> int:
    """`size` rounded up to the alignment of offsets."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _pack(buffer: str, items: Iterable[tuple[str, int]]) -> list[Binding]:
    bindings, offset = [], 0
    for name, size in items:
        bindings.append(Binding(name, buffer, offset, size))
        offset += align(size)
    return bindings


def _ends(ranges: Iterable[Range]) -> dict[str, int]:
    ends: dict[str, int] = {}
    for place in ranges:
        ends[place.buffer] = max(ends.get(place.buffer, 0), place.offset + align(place.bytes))
    return ends


def lifetimes(capture: Capture) -> dict[int, tuple[int, int]]:
    """First and last launch that touch each scratch storage."""
    spans: dict[int, tuple[int, int]] = {}
    for position, launch in enumerate(capture.launches):
        for operand in launch.operands:
            if capture.storages[operand.storage].role == "scratch":
                first, _ = spans.get(operand.storage, (position, position))
                spans[operand.storage] = (first, position)
    return spans


def _plan_arena(capture: Capture) -> dict[int, Range]:
    """Offsets by the greedy rule for static plans: largest first, each at the lowest gap."""
    spans = lifetimes(capture)
    placed: list[tuple[int, int, int]] = []  # offset, end, storage
    result = {}
    sizes = {index: capture.storages[index].bytes for index in spans}
    for index in sorted(spans, key=lambda i: (-sizes[i], spans[i], i)):
        first, last = spans[index]
        size = align(sizes[index])
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
