"""Optimizers over small parameters, and a program that resumes many of them in a fresh process.

`python training_cases.py DIRECTORY STEPS` restores `DIRECTORY/<case>` for every case there, makes
STEPS steps more and writes the values to `DIRECTORY/<case>.npz`.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from tinygrad import Context, Tensor
from tinygrad.nn.optim import LAMB, LARS, SGD, Adam, AdamW, Muon, Optimizer, OptimizerGroup

import compile.training  # noqa: F401 - before tinygrad
from compile.training.checkpoint import load
from compile.training.snapshot import Parameters, restore, start

Make = Callable[..., Optimizer]


def _momenta(name: str, make: Callable[..., Optimizer]) -> dict[str, Callable[..., Optimizer]]:
    def maker(**options: object) -> Callable[..., Optimizer]:
        return lambda params, **rest: make(params, lr=0.05, **options, **rest)

    made = {f"{name}": maker(momentum=0.0, weight_decay=0.01)}
    for nesterov in (False, True):
        for classic in (False, True):
            kind = "nesterov" if nesterov else "heavy"
            order = "classic" if classic else "popular"
            made[f"{name}-{kind}-{order}"] = maker(momentum=0.9, nesterov=nesterov, classic=classic)
    return made


# Every optimizer, with every way of momentum that it has.
SINGLE: dict[str, Make] = {
    **_momenta("sgd", SGD),
    **_momenta("lars", LARS),
    "adam": lambda params, **rest: Adam(params, lr=0.05, b2=0.99, **rest),
    "adamw": lambda params, **rest: AdamW(params, lr=0.05, **rest),
    "lamb": lambda params, **rest: LAMB(params, lr=0.05, weight_decay=0.01, **rest),
}
UNFUSED: dict[str, Make] = {
    "muon-plain": lambda params, **rest: Muon(params, lr=0.05, momentum=0.0, **rest),
    "muon-heavy": lambda params, **rest: Muon(params, lr=0.05, nesterov=False, **rest),
    "muon-nesterov": lambda params, **rest: Muon(params, lr=0.05, ns_steps=2, **rest),
}


def _group(params: list[Tensor], **_: object) -> Optimizer:
    # The second parameter is in both: tinygrad then applies one update after the other.
    return OptimizerGroup(
        Adam(params, lr=0.01, fused=True), SGD(params[1:], lr=0.1, momentum=0.5, fused=False)
    )


GROUPS: dict[str, Make] = {"group-overlapping": _group}


def cases() -> dict[str, Callable[[list[Tensor]], Optimizer]]:
    """All optimizers by name, fused where they can be, ready to take parameters."""
    found: dict[str, Callable[[list[Tensor]], Optimizer]] = {}
    for fused in (False, True):
        for name, make in (SINGLE | ({} if fused else UNFUSED)).items():
            found[f"{name}-{'fused' if fused else 'each'}"] = _with_fusion(make, fused)
    return found | GROUPS


def _with_fusion(make: Make, fused: bool) -> Callable[[list[Tensor]], Optimizer]:
    return lambda params: make(params, fused=fused)


def parameters(seed: int = 0) -> dict[str, Tensor]:
    """A weight and a bias, of two dimensions both, as Muon wants them."""
    generator = np.random.default_rng(seed)
    shapes = {"weight": (3, 4), "bias": (1, 3)}
    arrays = {n: generator.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    return {name: Tensor(array).realize() for name, array in arrays.items()}


def run_steps(tensors: Parameters, optimizer: Optimizer, first: int, count: int) -> None:
    """Steps `first` … with gradients that are functions of the step number alone."""
    with Context(TRAINING=1):
        for step in range(first, first + count):
            generator = np.random.default_rng(step)
            optimizer.zero_grad()
            for tensor in tensors.values():
                gradient = generator.standard_normal(tensor.shape).astype(np.float32)
                tensor.grad = Tensor(gradient).realize()
            optimizer.step()


def values(tensors: Parameters) -> dict[str, np.ndarray]:
    """The tensors as arrays."""
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def same_bits(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> bool:
    """Whether all arrays have equal bytes."""
    return {n: a.tobytes() for n, a in first.items()} == {n: a.tobytes() for n, a in second.items()}


def _resume(directory: Path, count: int) -> None:
    for name, make in cases().items():
        if not (directory / name).exists():
            continue
        snapshot = load(directory / name)
        # Other values than the run began with: all must come from the checkpoint.
        tensors = parameters(seed=99)
        optimizer = make(list(tensors.values()))
        start(tensors, optimizer)
        restore(snapshot, tensors, optimizer)
        run_steps(tensors, optimizer, snapshot.record.step, count)
        np.savez(directory / f"{name}.npz", **values(tensors))


if __name__ == "__main__":
    _resume(Path(sys.argv[1]), int(sys.argv[2]))
