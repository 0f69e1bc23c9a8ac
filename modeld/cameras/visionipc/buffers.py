"""Picture buffers mapped into this process, as they are and without a copy."""

import mmap
import os
import stat
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from modeld.cameras.visionipc.records import STAMP, BufferRecord
from modeld.errors import ModeldError


class PictureBuffer:
    """One mapped buffer. It is unmapped when the last view of its pixels is gone.

    `pixels` is uint8, one-dimensional, starts at a page and cannot be written through; it is
    the same array for every picture, so that what is made of its address can be kept.
    `writable` is the same memory, for the server. Caches are the server's business: it cleans
    them before it announces a picture.
    """

    def __init__(self, record: BufferRecord, fd: int) -> None:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode) and status.st_size < record.mapped_length:
            raise ModeldError(
                f"the camera server's buffer {record.index} has {status.st_size} bytes of memory, "
                f"its description says {record.mapped_length}: restart camerad"
            )
        self.layout = record.layout
        # Writable like every other client's mapping: drivers that use it in place may ask for it.
        try:
            self._memory = mmap.mmap(fd, record.mapped_length)
        except (OSError, ValueError) as error:
            raise ModeldError(
                f"the camera server's buffer {record.index} cannot be mapped: {error}"
            ) from error
        self._stamp_at = record.length
        self.writable: npt.NDArray[np.uint8] = np.frombuffer(
            self._memory, np.uint8, record.layout.bytes
        )
        self.pixels = self.writable.view()
        self.pixels.flags.writeable = False

    @property
    def stamp(self) -> int:
        """Id of the frame whose pixels were put here last, or 0 where the server keeps none."""
        (frame_id,) = STAMP.unpack_from(self._memory, self._stamp_at)
        return int(frame_id)

    @stamp.setter
    def stamp(self, frame_id: int) -> None:
        STAMP.pack_into(self._memory, self._stamp_at, frame_id)


def map_buffers(
    records: Sequence[BufferRecord], descriptors: Sequence[int]
) -> tuple[PictureBuffer, ...]:
    """Map all buffers of a stream. Raises ModeldError when one is not what it should be."""
    return tuple(PictureBuffer(record, fd) for record, fd in zip(records, descriptors, strict=True))
