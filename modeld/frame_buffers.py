"""Camera frames as OpenCL buffers: in place where device and host share memory, else one copy."""

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyopencl as cl

# Two cameras with 18 buffers each, and a few for the moment of a reconnect.
MAX_WRAPPED = 40
# Drivers use host memory in place only when it begins at a cache line.
HOST_ALIGNMENT = 64


@dataclass
class FrameBuffers:
    """Device buffers for camera frames; counts how frames reached the device."""

    queue: cl.CommandQueue
    in_place: bool
    used_in_place: int = 0
    copied: int = 0
    # By the array's identity. It is kept with its buffer, so that no other can take that over.
    _wrapped: OrderedDict[int, tuple[cl.Buffer, npt.NDArray[np.generic]]] = field(
        default_factory=OrderedDict
    )
    _copies: dict[str, cl.Buffer] = field(default_factory=dict)

    def bind(self, name: str, data: npt.NDArray[np.generic]) -> tuple[cl.Buffer, list[cl.Event]]:
        """A device buffer that holds `data` (1-D uint8), and the transfers that fill it.

        A camera that gives the same array for the same memory has it wrapped once.
        """
        if id(data) in self._wrapped:
            self.used_in_place += 1
            return self._wrapped_before(data)
        aligned = data.ctypes.data % HOST_ALIGNMENT == 0 and data.flags.c_contiguous
        if self.in_place and aligned:
            self.used_in_place += 1
            return self._wrap(data), []
        self.copied += 1
        buffer = self._copies.get(name)
        if buffer is None or buffer.size < data.nbytes:
            flags = cl.mem_flags.READ_ONLY
            buffer = self._copies[name] = cl.Buffer(self.queue.context, flags, data.nbytes)
        return buffer, [cl.enqueue_copy(self.queue, buffer, data, is_blocking=False)]

    def forget_counts(self) -> None:
        """Count from here on, as after a warm-up."""
        self.used_in_place = self.copied = 0

    def _wrap(self, data: npt.NDArray[np.generic]) -> cl.Buffer:
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR
        buffer = cl.Buffer(self.queue.context, flags, hostbuf=data)
        self._wrapped[id(data)] = (buffer, data)
        if len(self._wrapped) > MAX_WRAPPED:
            self._wrapped.popitem(last=False)
        return buffer

    def _wrapped_before(self, data: npt.NDArray[np.generic]) -> tuple[cl.Buffer, list[cl.Event]]:
        self._wrapped.move_to_end(id(data))
        buffer, _ = self._wrapped[id(data)]
        # The camera wrote behind OpenCL's back. Mapping for overwrite and unmapping tells the
        # driver that the host's bytes are the newer ones, without reading the device's.
        view, mapped = cl.enqueue_map_buffer(
            self.queue,
            buffer,
            cl.map_flags.WRITE_INVALIDATE_REGION,
            0,
            (data.nbytes,),
            np.uint8,
            is_blocking=False,
        )
        view.base.release(self.queue)
        return buffer, [mapped]
