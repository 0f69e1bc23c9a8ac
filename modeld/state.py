"""The network's small inputs: what the car and the driver do, besides what the cameras see."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modeld.constants import DESIRE_LEN, Desire
from modeld.errors import ModeldError
from modeld.manifest import Contract

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Situation:
    """One turn's inputs: speed in m/s, delays in seconds from now until the car responds."""

    desire: Desire = Desire.NONE
    right_hand_drive: bool = False
    v_ego: float = 0.0
    lateral_delay: float = 0.0
    lat_action_t: float = 0.0
    long_action_t: float = 0.0


def _traffic_convention(situation: Situation) -> tuple[float, ...]:
    return (0.0, 1.0) if situation.right_hand_drive else (1.0, 0.0)


def _action_t(situation: Situation) -> tuple[float, ...]:
    return (situation.lat_action_t, situation.long_action_t)


def _lateral_control_params(situation: Situation) -> tuple[float, ...]:
    return (situation.v_ego, situation.lateral_delay)


# Inputs that are a function of the situation, with their number of elements.
_VALUES: dict[str, tuple[int, Callable[[Situation], tuple[float, ...]]]] = {
    "traffic_convention": (2, _traffic_convention),
    "action_t": (2, _action_t),
    "lateral_control_params": (2, _lateral_control_params),
}
# There is no navigation and no style selection here: their inputs say "none".
_ZEROS = frozenset({"nav_features", "nav_instructions", "driving_style"})
# Given by the warp, not by the host.
_IMAGES = frozenset({"new_img"})


class ModelInputs:
    """Arrays for a contract's inputs, made once and rewritten every turn.

    Raises ModeldError when the contract asks for an input that is unknown here or has another
    number of elements.
    """

    def __init__(self, contract: Contract) -> None:
        given = _IMAGES | {pair.input for pair in contract.state}
        given |= {frozen.name for frozen in contract.frozen}
        self._arrays: dict[str, Array] = {}
        for tensor in contract.inputs:
            if tensor.name in given:
                continue
            size = int(np.prod(tensor.shape))
            expected = DESIRE_LEN if tensor.name == "desire" else _size(tensor.name, size)
            if size != expected:
                raise ModeldError(
                    f"input {tensor.name} has {size} elements, the daemon gives {expected}; "
                    "build the artifact from a driving model of a known generation"
                )
            self._arrays[tensor.name] = np.zeros(tensor.shape, tensor.dtype)
        self._last_desire = Desire.NONE

    def fill(self, situation: Situation) -> Mapping[str, Array]:
        """The inputs by name for this turn; valid until the next call.

        A desire is a pulse: it is given in the one turn in which it begins, and holding it gives
        nothing more. "No desire" never pulses.
        """
        for name, array in self._arrays.items():
            if name in _VALUES:
                array.reshape(-1)[:] = _VALUES[name][1](situation)
        if "desire" in self._arrays:
            pulse = self._arrays["desire"].reshape(-1)
            pulse[:] = 0
            if situation.desire not in (self._last_desire, Desire.NONE):
                pulse[situation.desire] = 1
        self._last_desire = situation.desire
        return self._arrays

    def reset(self) -> None:
        """Forget the last desire, as the network forgets its state."""
        self._last_desire = Desire.NONE


def _size(name: str, found: int) -> int:
    if name in _ZEROS:
        return found
    if name in _VALUES:
        return _VALUES[name][0]
    raise ModeldError(
        f"the daemon has no value for input {name}; it knows desire, "
        f"{', '.join(sorted(_VALUES))} and zeros for {', '.join(sorted(_ZEROS))}"
    )
