"""The state of tinygrad's random numbers: a seed, and per device a key and a counter.

Every draw advances the counter of its device, so a run that resumes goes on with the numbers it
would have had. A device's key depends on how many devices drew before it, so their order is part
of the state. Generators of numpy or Python are not covered: whatever else draws, data loaders
above all, should do so from a generator of its own, as a function of the data position.
"""

from dataclasses import dataclass

import numpy as np
from tinygrad import Tensor

from compile.training.placement import is_pending, read, write
from compile.training.stored import StoredTensor


@dataclass(frozen=True, slots=True)
class DeviceRandom:
    """One device's generator: key and counter, two 32-bit words each."""

    device: str
    key: tuple[int, ...]
    counter: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RandomState:
    """All of tinygrad's random state; devices in the order in which they first drew."""

    seed: int
    devices: tuple[DeviceRandom, ...]


def random_state() -> RandomState:
    """The present state."""
    keys, counters = Tensor._device_seeds, Tensor._device_rng_counters
    return RandomState(
        Tensor._seed,
        tuple(DeviceRandom(d, _words(keys[d]), _words(counters[d])) for d in keys),
    )


def set_random_state(state: RandomState) -> None:
    """Go on from `state`. Kernels captured before keep drawing from the same memory."""
    keys, counters = Tensor._device_seeds, Tensor._device_rng_counters
    Tensor._seed = state.seed
    Tensor._device_seeds = {d.device: _set(keys.get(d.device), d, d.key) for d in state.devices}
    Tensor._device_rng_counters = {
        d.device: _set(counters.get(d.device), d, d.counter) for d in state.devices
    }


def _words(tensor: Tensor) -> tuple[int, ...]:
    if is_pending(tensor):
        tensor.realize()
    return tuple(int(word) for word in np.frombuffer(read(tensor).data, np.uint32))


def _set(tensor: Tensor | None, device: DeviceRandom, words: tuple[int, ...]) -> Tensor:
    if tensor is None:
        tensor = Tensor.empty(len(words), dtype="uint32", device=device.device)
    write(tensor, StoredTensor("uint32", (len(words),), np.array(words, np.uint32).tobytes()))
    return tensor
