"""Frames as they reach the daemon, and the protocol that every frame source keeps.

A port to a new board supplies a `FrameSource`; nothing else here changes with the hardware.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class FrameLayout:
    """How NV12 pixels lie in a buffer; lengths in pixels, offsets and strides in bytes.

    Luma row y starts at `y * stride`, interleaved chroma (U, V) row y at
    `uv_offset + y * stride`, for `height` and `height / 2` rows.
    """

    width: int
    height: int
    stride: int
    uv_offset: int

    @property
    def bytes(self) -> int:
        """Bytes from the first luma pixel to the end of the last chroma row."""
        return self.uv_offset + self.stride * (self.height // 2)


@dataclass(frozen=True, slots=True)
class Frame:
    """One camera picture. `data` is uint8, one-dimensional, at least `layout.bytes` long.

    It may be a view of a camera's own memory, valid only until the next `receive` on its stream.
    Timestamps are nanoseconds on CLOCK_MONOTONIC (or a log's clock in replay).
    """

    data: npt.NDArray[np.uint8]
    layout: FrameLayout
    frame_id: int
    timestamp_sof: int
    timestamp_eof: int
    valid: bool = True


class FrameStream(Protocol):
    """The pictures of one camera, in order."""

    def receive(self, timeout_s: float) -> Frame | None:
        """The next frame, or None when none came within `timeout_s`.

        Raises EndOfStreamError when no frame will ever come again (end of a recording).
        """


class FrameSource(Protocol):
    """The cameras of a device. At least one of `narrow` and `wide` is not None."""

    @property
    def narrow(self) -> FrameStream | None:
        """The main camera's frames, unless the device only has a wide one."""

    @property
    def wide(self) -> FrameStream | None:
        """The wide camera's frames."""

    def close(self) -> None:
        """Release what the source holds; `receive` must not be called afterwards."""


class EndOfStreamError(Exception):
    """The recording has no further frame."""
