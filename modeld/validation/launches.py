"""The manifest's entry points: which kernels run, on how many work-items, on which memory."""

import math
import re

from modeld.manifest import Argument, Buffer, Call, Camera, EntryPoint, Image, Manifest
from modeld.validation.memory import WARP_OUTPUT
from modeld.validation.rules import (
    MAX_BYTES,
    quoted,
    require_between,
    require_inside,
    require_unique,
    unsound,
)

# Kernels count their work-items in 32-bit signed integers.
MAX_WORK_ITEMS = (1 << 31) - 1
# OpenCL guarantees 3 dimensions.
MAX_DIMENSIONS = 3
# Above what any device of the field takes; the driver refuses what its own device does not.
MAX_WORK_GROUP = 1 << 12
MAX_IMAGE_SIDE = 1 << 16
ACCESSES = ("read", "write", "read_write")
PIXEL_BYTES = {"float": 16, "half": 8}
KERNEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
ENTRY_POINTS = ("run_model", "run_warp")


def check_launches(manifest: Manifest) -> None:
    """Raise ModeldError unless all entry points and all their calls are sound."""
    entries = manifest.entry_points
    require_unique("entry point", (_entry_name(entry) for entry in entries))
    wanted = {
        "run_model",
        *(_entry_name(EntryPoint("run_warp", c, ())) for c in manifest.contract.cameras),
    }
    for name in sorted(wanted ^ {_entry_name(entry) for entry in entries}):
        raise unsound(f"entry point {quoted(name)} and the contract do not go together")
    check = _LaunchCheck(manifest)
    for entry in entries:
        for number, call in enumerate(entry.calls):
            check.call(f"{_entry_name(entry)} launch {number}", entry, call)
        if entry.name == "run_model" and manifest.budget.kernels != len(entry.calls):
            raise unsound(
                f"budget.kernels is {manifest.budget.kernels}, run_model has {len(entry.calls)}"
            )


def _entry_name(entry: EntryPoint) -> str:
    if entry.name not in ENTRY_POINTS or (entry.camera is None) != (entry.name == "run_model"):
        raise unsound(f"entry point {quoted(entry.name)} is neither run_model nor a camera's")
    return f"run_warp {entry.camera.name}" if entry.camera else entry.name


class _LaunchCheck:
    def __init__(self, manifest: Manifest) -> None:
        self._alignment = manifest.target.alignment
        self._buffers = {buffer.name: buffer for buffer in manifest.buffers}
        self._programs = {entry.path for entry in manifest.files if entry.path.endswith(".cl")}
        places = {binding.tensor: binding.buffer for binding in manifest.bindings}
        self._next_state = {places[pair.output] for pair in manifest.contract.state}
        self._warped = places.get(WARP_OUTPUT)

    def call(self, what: str, entry: EntryPoint, call: Call) -> None:
        if call.program not in self._programs:
            raise unsound(f"{what} names {quoted(call.program)}, which is not in the artifact")
        if not KERNEL_NAME.fullmatch(call.kernel):
            raise unsound(f"{what} names the kernel {quoted(call.kernel)}, which is no identifier")
        require_between(f"macs of {what}", call.macs, 0, 1 << 63)
        _check_sizes(what, call)
        for number, argument in enumerate(call.arguments):
            self._argument(f"argument {number} of {what}", entry, argument)
        _require_no_race(what, call.arguments)

    def _argument(self, what: str, entry: EntryPoint, argument: Argument) -> None:
        buffer = self._buffers.get(argument.buffer)
        if buffer is None:
            raise unsound(f"{what} is buffer {quoted(argument.buffer)}, which is not there")
        require_inside(what, argument.offset, argument.bytes, buffer.bytes, self._alignment)
        # OpenCL has no empty sub-buffers.
        require_between(f"bytes of {what}", argument.bytes, 1, MAX_BYTES)
        if argument.access not in ACCESSES:
            raise unsound(f"{what} has the access {quoted(argument.access)}")
        if argument.access != "read" and not self._may_write(entry, buffer):
            raise unsound(f"{what} writes to {quoted(buffer.name)}, which {entry.name} must not")
        if buffer.role == "frame":
            _check_frame(what, entry.camera, argument, buffer)
        if argument.image is not None:
            _check_image(what, argument.image, argument.bytes)

    def _may_write(self, entry: EntryPoint, buffer: Buffer) -> bool:
        if entry.name == "run_warp":
            return buffer.role == "arena" or buffer.name == self._warped
        return buffer.role in ("arena", "output") or buffer.name in self._next_state


def _check_sizes(what: str, call: Call) -> None:
    sizes = call.global_size
    require_between(f"number of dimensions of {what}", len(sizes), 1, MAX_DIMENSIONS)
    for size in sizes:
        require_between(f"global size of {what}", size, 1, MAX_WORK_ITEMS)
    require_between(f"work-items of {what}", math.prod(sizes), 1, MAX_WORK_ITEMS)
    if call.local_size is None:
        return
    if len(call.local_size) != len(sizes):
        raise unsound(f"local and global size of {what} have different numbers of dimensions")
    for size, whole in zip(call.local_size, sizes, strict=True):
        require_between(f"local size of {what}", size, 1, MAX_WORK_GROUP)
        if whole % size:
            raise unsound(f"local size {size} of {what} does not divide global size {whole}")
    require_between(f"work-group of {what}", math.prod(call.local_size), 1, MAX_WORK_GROUP)


def _check_frame(what: str, camera: Camera | None, argument: Argument, buffer: Buffer) -> None:
    """Frames are bound anew for every turn and whole, to the camera that the entry is for."""
    if camera is None or not buffer.name.endswith(f"_{camera.name}"):
        raise unsound(f"{what} is the frame {quoted(buffer.name)}, of another camera or none")
    if (argument.offset, argument.bytes) != (0, buffer.bytes) or argument.image is not None:
        raise unsound(f"{what} is a part of the frame {quoted(buffer.name)}")


def _check_image(what: str, image: Image, size: int) -> None:
    if image.channel not in PIXEL_BYTES:
        raise unsound(f"{what} is an image of {quoted(image.channel)}, neither float nor half")
    for side in (image.width, image.height):
        require_between(f"a side of the image of {what}", side, 1, MAX_IMAGE_SIDE)
    row = image.width * PIXEL_BYTES[image.channel]
    require_between(f"row pitch of {what}", image.row_pitch, row, MAX_BYTES)
    require_between(f"bytes of the image of {what}", image.row_pitch * image.height, row, size)


def _require_no_race(what: str, arguments: tuple[Argument, ...]) -> None:
    """No launch reads bytes that it writes through another argument, nor writes them twice."""
    touched: dict[str, int] = {}  # buffer -> end of what arguments before this one touch
    written: dict[str, int] = {}
    for argument in sorted(arguments, key=lambda a: a.offset):
        name, end = argument.buffer, argument.offset + argument.bytes
        writes = argument.access != "read"
        if argument.offset < (touched if writes else written).get(name, 0):
            raise unsound(f"{what} writes bytes of {quoted(name)} that another argument names")
        touched[name] = max(end, touched.get(name, 0))
        if writes:
            written[name] = max(end, written.get(name, 0))
