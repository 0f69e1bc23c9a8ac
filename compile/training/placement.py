"""Where a tensor lies, and its bytes: read and written in place, without a kernel."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tinygrad import Tensor
from tinygrad.device import Buffer, MultiBuffer, canonicalize_device

from compile.training.stored import StoredTensor, dtype_name, dtype_named
from modeld.errors import ModeldError


@dataclass(frozen=True, slots=True)
class Placement:
    """The devices that hold a tensor; with `axis` each holds its part, else each the whole."""

    devices: tuple[str, ...]
    axis: int | None = None

    def __str__(self) -> str:
        if len(self.devices) == 1:
            return self.devices[0]
        names = " and ".join(self.devices)
        return f"whole on {names}" if self.axis is None else f"split along {self.axis} over {names}"


def on_devices(*devices: str, axis: int | None = None) -> Placement:
    """A placement with the devices' names as tinygrad spells them (`CL:0` is `CL`)."""
    names = canonicalize_device(devices)
    return Placement((names,) if isinstance(names, str) else tuple(names), axis)


def placement_of(tensor: Tensor) -> Placement:
    """Where `tensor` lies."""
    device = tensor.device
    if isinstance(device, tuple):
        return Placement(device, tensor.uop.axis)
    return Placement((str(device),))


def is_pending(tensor: Tensor) -> bool:
    """Whether the tensor's value is yet to be computed: it is lazy, or was assigned to."""
    return math.prod(tensor.shape) > 0 and not tensor.uop.has_buffer_identity()


def read(tensor: Tensor) -> StoredTensor:
    """The bytes of a computed tensor.

    Raises ModeldError when devices that should hold the same hold something else.
    """
    dtype, shape = dtype_name(tensor.dtype), tuple(tensor.shape)
    if math.prod(shape) == 0:
        return StoredTensor(dtype, shape, b"")
    parts = [bytes(buffer.ensure_allocated().as_memoryview()) for buffer in _buffers(tensor)]
    axis = placement_of(tensor).axis
    if axis is None:
        if any(part != parts[0] for part in parts[1:]):
            raise ModeldError(
                f"{placement_of(tensor)}: the copies of a tensor differ; "
                "load the last checkpoint, they were not updated alike"
            )
        return StoredTensor(dtype, shape, parts[0])
    local = (*shape[:axis], shape[axis] // len(parts), *shape[axis + 1 :])
    arrays = [_elements(part, dtype).reshape(local) for part in parts]
    return StoredTensor(dtype, shape, np.concatenate(arrays, axis).tobytes())


def write(tensor: Tensor, stored: StoredTensor) -> None:
    """Give `tensor` the stored bytes, on the devices where it lies.

    A computed tensor keeps its memory, so that kernels captured with it see the new value; a lazy
    one gets memory. Element type and shape must be the tensor's.
    """
    if math.prod(stored.shape) == 0:
        return
    if is_pending(tensor):
        tensor.replace(_with_memory(stored, placement_of(tensor)))
    parts = [stored.data] * len(_buffers(tensor))
    axis = placement_of(tensor).axis
    if axis is not None:
        array = _elements(stored.data, stored.dtype).reshape(stored.shape)
        parts = [part.tobytes() for part in np.split(array, len(parts), axis)]
    for buffer, part in zip(_buffers(tensor), parts, strict=True):
        source = memoryview(bytearray(part))
        host = Buffer("PYTHON", buffer.size, buffer.dtype, opaque=source)
        buffer.ensure_allocated().copy_from(host)


def _with_memory(stored: StoredTensor, placement: Placement) -> Tensor:
    """A computed tensor of the stored type and shape; its value is undefined."""
    dtype = dtype_named(stored.dtype)
    whole = Tensor.empty(*stored.shape, dtype=dtype, device=placement.devices[0]).realize()
    if len(placement.devices) == 1:
        return whole
    # tinygrad 0.14 can only split tensors that have memory already.
    whole.uop.buffer.ensure_allocated()
    return whole.shard(placement.devices, placement.axis).realize()


def _buffers(tensor: Tensor) -> list[Buffer]:
    buffer = tensor.uop.buffer
    return list(buffer.bufs) if isinstance(buffer, MultiBuffer) else [buffer]


def _elements(data: bytes, dtype: str) -> np.ndarray[Any, Any]:
    """The elements as unsigned integers of their width, for moving them about."""
    return np.frombuffer(data, f"u{dtype_named(dtype).itemsize}")
