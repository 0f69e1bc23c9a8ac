"""An executor without a device: it answers with vectors that a test made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modeld.cameras.frame import Frame
from modeld.fakes.clock import FakeClock
from modeld.manifest import Camera, Contract, Slice, Tensor

Array = npt.NDArray[np.generic]

# Slices of today's driving network with an action head.
SLICES = {
    "lane_lines": (0, 528),
    "lane_lines_prob": (528, 536),
    "road_edges": (536, 800),
    "meta": (800, 855),
    "desire_pred": (855, 887),
    "pose": (887, 899),
    "wide_from_device_euler": (899, 905),
    "road_transform": (905, 917),
    "plan": (917, 1907),
    "lead": (1907, 2051),
    "lead_prob": (2051, 2054),
    "desire_state": (2054, 2062),
    "action": (2062, 2066),
    "hidden_state": (2066, 2578),
    "pad": (2578, 2580),
}
OUTPUT_SIZE = 2580


def driving_contract(width: int = 16, height: int = 8) -> Contract:
    """The contract of a driving network whose state needs no host."""
    return Contract(
        kind="driving",
        generation="supercombo",
        inputs=(
            Tensor("new_img", (2, 6, 128, 256), "uint8"),
            Tensor("desire", (1, 8), "float32"),
            Tensor("traffic_convention", (1, 2), "float32"),
            Tensor("action_t", (1, 2), "float32"),
        ),
        outputs=(Tensor("outputs", (1, OUTPUT_SIZE), "float32"),),
        state=(),
        frozen=(),
        output_slices=tuple(Slice(name, *where) for name, where in SLICES.items()),
        cameras=(Camera(width, height),),
    )


@dataclass(frozen=True)
class Call:
    """What one `run_frame` was given, copied."""

    narrow: Frame
    wide: Frame
    transforms: npt.NDArray[np.float32]
    inputs: dict[str, Array]


@dataclass(frozen=True)
class FakeAnswer:
    """Outputs by name, and a quarter of the turn for each device stage."""

    outputs: dict[str, Array]
    upload_ns: int
    warp_ns: int
    model_ns: int
    read_ns: int


class FakeExecutor:
    """Answers turn n with `answer(n)`, after `turn_ns` on the clock if one is given."""

    def __init__(
        self,
        answer: Callable[[int], npt.NDArray[np.float32]],
        contract: Contract | None = None,
        clock: FakeClock | None = None,
        turn_ns: int = 0,
    ) -> None:
        self.contract = driving_contract() if contract is None else contract
        self.calls: list[Call] = []
        self.resets = 0
        self._answer = answer
        self._clock = clock
        self._turn_ns = turn_ns

    def run_frame(
        self,
        narrow: Frame,
        wide: Frame,
        transforms: npt.NDArray[np.float32],
        inputs: Mapping[str, Array],
    ) -> FakeAnswer:
        """Remember the call, take the time, give the answer."""
        copies = {name: array.copy() for name, array in inputs.items()}
        self.calls.append(Call(narrow, wide, transforms.copy(), copies))
        if self._clock is not None:
            self._clock.advance(self._turn_ns)
        outputs: dict[str, Array] = {"outputs": self._answer(len(self.calls) - 1)}
        part = self._turn_ns // 4
        return FakeAnswer(outputs, part, part, part, part)

    def reset(self) -> None:
        """Count the reset."""
        self.resets += 1
