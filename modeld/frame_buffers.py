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
    # The array is kept with its buffer, so that its address cannot be given to another mapping.
    _wrapped: OrderedDict[tuple[int, int], tuple[cl.Buffer, npt.NDArray[np.uint8]]] = field(
        default_factory=OrderedDict
    )
    _copies: dict[str, cl.Buffer] = field(default_factory=dict)

    def bind(self, name: str, data: npt.NDArray[np.uint8]) -> tuple[cl.Buffer, list[cl.Event]]:
        """A device buffer that holds `data` (1-D uint8), and the transfers that fill it."""
        address = data.ctypes.data
        if self.in_place and address % HOST_ALIGNMENT == 0 and data.flags.c_contiguous:
            self.used_in_place += 1
            return self._wrap(address, data)
        self.copied += 1
        buffer = self._copies.get(name)
        if buffer is None or buffer.size < data.nbytes:
            flags = cl.mem_flags.READ_ONLY
            buffer = self._copies[name] = cl.Buffer(self.queue.context, flags, data.nbytes)
        return buffer, [cl.enqueue_copy(self.queue, buffer, data, is_blocking=False)]

    def forget_counts(self) -> None:
        """Count from here on, as after a warm-up."""
        self.used_in_place = self.copied = 0

    def _wrap(self, address: int, data: npt.NDArray[np.uint8]) -> tuple[cl.Buffer, list[cl.Event]]:
        key = (address, data.nbytes)
        if key not in self._wrapped:
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR
            self._wrapped[key] = (cl.Buffer(self.queue.context, flags, hostbuf=data), data)
            if len(self._wrapped) > MAX_WRAPPED:
                self._wrapped.popitem(last=False)
            return self._wrapped[key][0], []
        self._wrapped.move_to_end(key)
        buffer, _ = self._wrapped[key]
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
