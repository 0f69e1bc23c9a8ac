"""What is handed to the daemon: executor and messages, as protocols (frame sources have theirs).

The daemon's modules know these and no OpenCL, socket or file, so that a port to another board,
and a test, supply their own.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from modeld.cameras.frame import Frame
from modeld.manifest import Contract

Array = npt.NDArray[np.generic]
Vector = npt.NDArray[np.float32]


class FrameAnswer(Protocol):
    """What an executor gives for a pair: outputs by name, device times in nanoseconds."""

    @property
    def outputs(self) -> Mapping[str, Array]:
        """By the contract's names; not changed by later turns."""

    @property
    def upload_ns(self) -> int:
        """Host to device, frames included."""

    @property
    def warp_ns(self) -> int:
        """Both frames to the model's views."""

    @property
    def model_ns(self) -> int:
        """The network."""

    @property
    def read_ns(self) -> int:
        """Device to host."""


class Ended(Protocol):
    """Tells the loop when to end, as a `threading.Event` does."""

    def is_set(self) -> bool:
        """Asked once a turn; must not wait."""


class FrameExecutor(Protocol):
    """Runs the network on a pair of frames; recurrent state lives inside."""

    @property
    def contract(self) -> Contract:
        """Inputs, outputs, slices and camera geometries of the network."""

    def run_frame(
        self,
        narrow: Frame,
        wide: Frame,
        transforms: Vector,
        inputs: Mapping[str, Array],
    ) -> FrameAnswer:
        """One turn; `transforms` (2, 3, 3) maps model pixels to camera pixels."""

    def reset(self) -> None:
        """Zero the recurrent state."""


class Inputs(Protocol):
    """Received messages, refreshed once a turn; dictionaries by service name."""

    updated: dict[str, bool]
    seen: dict[str, bool]

    def __getitem__(self, service: str) -> Any:
        """The newest content of a service, all defaults before the first."""

    @property
    def rejected(self) -> Mapping[Any, int]:
        """Unsound messages by service and reason."""

    def update(self) -> None:
        """Take in what has arrived, without waiting."""


class Outputs(Protocol):
    """Where messages go."""

    def new_event(self, service: str, *, valid: bool = False) -> Any:
        """A builder stamped with the present time."""

    def send(self, service: str, event: Any) -> None:
        """Send it, without waiting."""
