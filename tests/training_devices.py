"""A run split over two OpenCL devices, saved and restored there and on one: run by a test.

Needs a process of its own with two devices (`POCL_DEVICES="pthread pthread"`). Prints a JSON
object of what it found.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Context, Tensor
from tinygrad.nn.optim import SGD, Adam, Optimizer

from compile.device import use_devices
from compile.training.checkpoint import CheckpointStore, load
from compile.training.converters import moved
from compile.training.placement import Placement, on_devices, placement_of, read
from compile.training.snapshot import Parameters, restore, start, take
from modeld.errors import ModeldError
from modeld.opencl import list_devices

BOTH = ("CL:0", "CL:1")
PLACEMENTS = {"weight": on_devices(*BOTH, axis=1), "bias": on_devices(*BOTH)}
SHAPES = {"weight": (3, 4), "bias": (1, 3)}


def arrays(seed: int) -> dict[str, np.ndarray]:
    """Values or gradients of both parameters."""
    generator = np.random.default_rng(seed)
    return {n: generator.standard_normal(s).astype(np.float32) for n, s in SHAPES.items()}


def placed(seed: int, placements: dict[str, Placement]) -> dict[str, Tensor]:
    """Tensors with the values of `seed`, whole or split."""
    tensors = {}
    for name, array in arrays(seed).items():
        place = placements[name]
        tensor = Tensor(array, device=place.devices[0]).realize()
        tensors[name] = (
            tensor.shard(place.devices, place.axis).realize() if place.devices[1:] else tensor
        )
    return tensors


def run_steps(tensors: Parameters, optimizer: Optimizer, first: int, count: int) -> None:
    """Steps whose gradients depend on the step number alone."""
    with Context(TRAINING=1):
        for step in range(first, first + count):
            gradients = placed(1000 + step, {n: placement_of(t) for n, t in tensors.items()})
            for name, tensor in tensors.items():
                tensor.grad = gradients[name]
            optimizer.step()


def stored(tensors: Parameters) -> dict[str, Any]:
    """The tensors' bytes."""
    return {name: read(tensor) for name, tensor in tensors.items()}


def resumes(make: Callable[[list[Tensor]], Optimizer], directory: Path) -> dict[str, Any]:
    """Two steps, saved; two more, here and from the file, split as before and on another one."""
    tensors = placed(0, PLACEMENTS)
    optimizer = make(list(tensors.values()))
    start(tensors, optimizer)
    run_steps(tensors, optimizer, 0, 2)
    snapshot = load(CheckpointStore(directory).save(take(tensors, optimizer, step=2)))
    run_steps(tensors, optimizer, 2, 2)

    again = placed(9, PLACEMENTS)
    optimizer = make(list(again.values()))
    restore(snapshot, again, optimizer)
    run_steps(again, optimizer, 2, 2)

    alone = {name: on_devices("CL:1") for name in SHAPES}
    single = placed(9, alone)
    optimizer = make(list(single.values()))
    try:
        restore(snapshot, single, optimizer)
        refusal = ""
    except ModeldError as error:
        refusal = str(error)
    converted = moved(snapshot, alone)
    restore(converted, single, optimizer)
    same_state = take(single, optimizer, step=2).state == snapshot.state
    run_steps(single, optimizer, 2, 2)
    return {
        "same device bits": stored(again) == stored(tensors),
        "one device state": same_state,
        "one device bits": stored(single) == stored(tensors),
        "moved back": moved(converted, PLACEMENTS) == snapshot,
        "refusal": refusal,
    }


def differing_copies() -> str:
    """What is said when the whole copies on two devices differ."""
    tensor = placed(0, PLACEMENTS)["bias"]
    other = Tensor(arrays(1)["bias"]).realize()
    tensor.uop.buffer.bufs[1].copy_from(other.uop.buffer)
    try:
        read(tensor)
    except ModeldError as error:
        return str(error)
    return ""


def main(directory: Path) -> None:
    """Print what was found."""
    use_devices(list_devices()[:2])
    found = {
        "adam": resumes(lambda p: Adam(p, lr=0.05, fused=False), directory / "adam"),
        "sgd": resumes(lambda p: SGD(p, lr=0.05, momentum=0.9, fused=False), directory / "sgd"),
        "copies": differing_copies(),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
