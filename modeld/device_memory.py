"""The artifact's buffers on the device, and the host arrays that go up and come down."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from modeld.artifact import Artifact
from modeld.errors import ModeldError
from modeld.manifest import Argument, FrozenInput, Image, Tensor
from modeld.programs import opencl_errors
from modeld.weights import stream_weights

Array = npt.NDArray[np.generic]

# Inputs of at most so many bytes are compared with what the device has before they are sent, and
# those that lie next to each other share a transfer. Larger ones are read or sent from where they
# are.
_SMALL = 4096
# The widest load by which a kernel expects its buffer to be aligned: four floats.
_LOAD_BYTES = 16

_CHANNELS = {"float": cl.channel_type.FLOAT, "half": cl.channel_type.HALF_FLOAT}


class DeviceMemory:
    """All allocations of one artifact except camera frames.

    Small inputs are staged in one host array per input buffer, so that neighbours go up in one
    transfer; outputs come down into one host array per output buffer, a new one each time.

    With `borrow` the device reads large inputs out of the caller's arrays: for devices whose
    memory is the host's and for which a buffer around an array costs nothing, as processors.
    """

    def __init__(self, queue: cl.CommandQueue, artifact: Artifact, *, borrow: bool = False) -> None:
        self._queue = queue
        self._context = queue.context
        self._roles = {buffer.name: buffer.role for buffer in artifact.manifest.buffers}
        self._sizes = {buffer.name: buffer.bytes for buffer in artifact.manifest.buffers}
        self._bindings = {binding.tensor: binding for binding in artifact.manifest.bindings}
        with opencl_errors("allocating device memory"):
            self._buffers = {
                name: cl.Buffer(self._context, _flags(role), self._sizes[name])
                for name, role in self._roles.items()
                if role != "frame"
            }
        self._views: dict[tuple[str, int, int], cl.Buffer] = {}
        self._images: dict[tuple[str, int, int, Image], cl.Image] = {}
        self._staged = {
            name: np.zeros(self._sizes[name], np.uint8) for name in self._named("input")
        }
        self._downloaded: dict[str, npt.NDArray[np.uint8]] = {}
        # By small tensor: its place in those arrays, what it was last, and its transfer.
        self._places: dict[str, Array] = {}
        self._last: dict[str, bytes] = {}
        self._transfers = self._small_transfers()
        # What the next upload sends: (buffer, offset) of the device, and the host array.
        self._waiting: dict[tuple[str, int], Array] = {}
        # By argument, the inputs that may be read in place; by name, the buffers around those that
        # this turn reads so.
        self._borrowable = self._read_as_a_whole(artifact) if borrow else {}
        self._borrowed: dict[str, cl.Buffer] = {}
        self._uploads: list[cl.Event] = []
        self._upload_weights(artifact)
        self.zero_state()

    def rebound_name(self, argument: Argument) -> str | None:
        """The camera frame or input that `argument` is, if its buffer may be another every turn."""
        if self._roles[argument.buffer] == "frame":
            return argument.buffer
        return self._borrowable.get(argument)

    def view(self, argument: Argument) -> cl.MemoryObject:
        """The buffer, sub-buffer or image that a kernel argument names."""
        key = (argument.buffer, argument.offset, argument.bytes)
        if key not in self._views:
            whole = self._buffers[argument.buffer]
            full = argument.offset == 0 and argument.bytes == self._sizes[argument.buffer]
            self._views[key] = (
                whole if full else whole.get_sub_region(argument.offset, argument.bytes)
            )
        if argument.image is None:
            return self._views[key]
        place = (*key, argument.image)
        if place not in self._images:
            self._images[place] = self._image(argument.buffer, self._views[key], argument.image)
        return self._images[place]

    def _image(self, buffer: str, view: cl.Buffer, image: Image) -> cl.Image:
        """The image2d that shares its memory with `view`."""
        layout = cl.ImageDescriptor()
        layout.image_type = cl.mem_object_type.IMAGE2D
        layout.shape = (image.width, image.height)
        layout.pitches = (image.row_pitch, 0)
        layout.num_mip_levels = layout.num_samples = 0
        layout.buffer = view
        pixel = cl.ImageFormat(cl.channel_order.RGBA, _CHANNELS[image.channel])
        return cl.Image(self._context, _flags(self._roles[buffer]), pixel, desc=layout)

    def stage(self, tensors: Collection[Tensor], arrays: Mapping[str, Array]) -> None:
        """Say what `upload` is to send: exactly the `tensors`, in their shape and dtype.

        Raises ModeldError. Small ones that are bit for bit what they were are on the device
        already. Large ones are read in place and must not change before `download` returns.
        """
        self._borrowed.clear()
        _check_names({tensor.name for tensor in tensors}, arrays)
        for tensor in tensors:
            name, array = tensor.name, arrays[tensor.name]
            if array.shape != tensor.shape or array.dtype != np.dtype(tensor.dtype):
                raise ModeldError(
                    f"input {name} is {array.dtype}{list(array.shape)}, "
                    f"the model wants {tensor.dtype}{list(tensor.shape)}"
                )
            if array.nbytes > _SMALL:
                self._stage_large(name, np.ascontiguousarray(array))
                continue
            content = array.tobytes()
            if self._last.get(name, b"") != content:
                self._last[name] = content
                self._place(tensor)[...] = array
                buffer, start, stop = self._transfers[name]
                self._waiting[buffer, start] = self._staged[buffer][start:stop]

    def _stage_large(self, name: str, array: Array) -> None:
        if name in self._borrowable.values() and array.ctypes.data % _LOAD_BYTES == 0:
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR
            with opencl_errors(f"reading {name} in place"):
                self._borrowed[name] = cl.Buffer(self._context, flags, hostbuf=array)
            return
        binding = self._bindings[name]
        self._waiting[binding.buffer, binding.offset] = array

    def input_buffers(self) -> dict[str, cl.Buffer]:
        """By name of each input whose buffer may be another every turn: this turn's."""
        return {
            name: self._borrowed.get(name) or self.view(argument)
            for argument, name in self._borrowable.items()
        }

    def upload(self) -> list[cl.Event]:
        """Enqueue the transfer of everything staged since the last call."""
        events = [
            cl.enqueue_copy(
                self._queue, self._buffers[name], array, dst_offset=offset, is_blocking=False
            )
            for (name, offset), array in self._waiting.items()
        ]
        self._waiting.clear()
        # An event that nobody holds is waited for, since then nobody vouches for the host array.
        self._uploads = events
        return events

    def download(self) -> list[cl.Event]:
        """Read all output buffers; returns when the queue has done all its work."""
        # New arrays, which `results` hands out as they are.
        self._downloaded = {name: self._host_array(name) for name in self._named("output")}
        events = [
            cl.enqueue_copy(self._queue, array, self._buffers[name], is_blocking=False)
            for name, array in self._downloaded.items()
        ]
        self._queue.finish()
        self._uploads = []
        self._borrowed.clear()
        return events

    def results(self, tensors: Iterable[Tensor]) -> dict[str, Array]:
        """The outputs that `download` brought, by name; they are the caller's."""
        return {tensor.name: self._part(self._downloaded, tensor) for tensor in tensors}

    def read(self, buffer: str, tensor: Tensor) -> Array:
        """Read one tensor's worth of bytes from the start of any buffer, at once."""
        array = np.empty(tensor.shape, tensor.dtype)
        if array.size:
            cl.enqueue_copy(self._queue, array, self._buffers[buffer])
        return array

    def write(self, buffer: str, array: Array) -> None:
        """Write `array` to the start of any buffer, at once."""
        cl.enqueue_copy(self._queue, self._buffers[buffer], np.ascontiguousarray(array))

    def zero_state(self) -> None:
        """Fill both halves of every state pair with zero."""
        with opencl_errors("zeroing the recurrent state"):
            for name in self._named("state"):
                zero = np.zeros(1, np.uint8)
                cl.enqueue_fill_buffer(self._queue, self._buffers[name], zero, 0, self._sizes[name])
            self._queue.finish()

    def _small_transfers(self) -> dict[str, tuple[str, int, int]]:
        """By small input: its buffer, and first and last byte of what goes up with it."""
        transfers: dict[str, tuple[str, int, int]] = {}
        for buffer in self._staged:
            group: list[str] = []
            inside = [b for b in self._bindings.values() if b.buffer == buffer]
            for binding in sorted(inside, key=lambda b: b.offset):
                if binding.bytes > _SMALL:
                    group = []
                    continue
                group.append(binding.tensor)
                first = self._bindings[group[0]].offset
                place = (buffer, first, binding.offset + binding.bytes)
                transfers |= dict.fromkeys(group, place)
        return transfers

    def _read_as_a_whole(self, artifact: Artifact) -> dict[Argument, str]:
        """Large inputs of which no launch of `run_model` reads a part, by the argument they are."""
        entry = next(e for e in artifact.manifest.entry_points if e.name == "run_model")
        arguments = [argument for call in entry.calls for argument in call.arguments]
        found = {}
        for name, binding in self._bindings.items():
            if self._roles[binding.buffer] == "input" and binding.bytes > _SMALL:
                whole = Argument(binding.buffer, binding.offset, binding.bytes, "read")
                if all(a == whole for a in arguments if _overlap(a, whole)):
                    found[whole] = name
        return found

    def _place(self, tensor: Tensor) -> Array:
        """Where a small input is staged."""
        if tensor.name not in self._places:
            self._places[tensor.name] = self._part(self._staged, tensor)
        return self._places[tensor.name]

    def _part(self, host: Mapping[str, npt.NDArray[np.uint8]], tensor: Tensor) -> Array:
        """The part of the `host` arrays that is `tensor`'s, in its dtype and shape."""
        binding = self._bindings[tensor.name]
        piece = host[binding.buffer][binding.offset :][: binding.bytes]
        return piece.view(tensor.dtype).reshape(tensor.shape)

    def _named(self, role: str) -> list[str]:
        return [name for name, found in self._roles.items() if found == role]

    def _host_array(self, name: str) -> npt.NDArray[np.uint8]:
        return np.empty(self._sizes[name], np.uint8)

    def _upload_weights(self, artifact: Artifact) -> None:
        with opencl_errors("uploading weights"):
            for offset, piece in stream_weights(artifact):
                # Blocking, since `piece` is the only copy and is dropped on return.
                cl.enqueue_copy(self._queue, self._buffers["weights"], piece, dst_offset=offset)


def _overlap(one: Argument, other: Argument) -> bool:
    return (
        one.buffer == other.buffer
        and one.offset < other.offset + other.bytes
        and other.offset < one.offset + one.bytes
    )


def _check_names(wanted: Set[str], given: Mapping[str, Array]) -> None:
    if wanted != given.keys():
        missing, extra = wanted - given.keys(), given.keys() - wanted
        raise ModeldError(
            f"inputs missing: {_listed(missing)}; unknown: {_listed(extra)}; "
            f"wanted: {_listed(wanted)}"
        )


def check_frozen(frozen: Sequence[FrozenInput], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Drop inputs that were frozen at build time, after comparing them with the frozen value.

    Raises ModeldError when another value is given.
    """
    known = {entry.name: entry for entry in frozen}
    for name in known.keys() & arrays.keys():
        array = np.ascontiguousarray(arrays[name])
        if hashlib.sha256(array.tobytes()).hexdigest() != known[name].sha256:
            raise ModeldError(
                f"input {name} was frozen at build time to another value; leave it out, or build "
                f"the artifact with --const {name}=…"
            )
    return {name: array for name, array in arrays.items() if name not in known}


def _flags(role: str) -> int:
    read_only = role == "weights"
    return int(cl.mem_flags.READ_ONLY if read_only else cl.mem_flags.READ_WRITE)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
