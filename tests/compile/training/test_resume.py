"""N steps, saved, loaded in another process, and M more: the bits of N + M steps."""

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
import training_cases as cases
from hypothesis import given, settings
from hypothesis import strategies as st
from tinygrad import Tensor
from tinygrad.nn.optim import LAMB, LARS, SGD, Adam, AdamW, Muon, Optimizer

from compile.training.checkpoint import CheckpointStore
from compile.training.placement import read, write
from compile.training.snapshot import restore, start, take

BEFORE, AFTER = 2, 2
# One of each way to compute a step; the whole matrix is slow.
CHOSEN = (
    "sgd-heavy-popular-each",
    "sgd-nesterov-classic-fused",
    "lars-heavy-classic-each",
    "muon-nesterov-each",
    "adam-fused",
    "lamb-fused",
    "group-overlapping",
)


def assert_resumes(directory: Path, names: Iterable[str]) -> None:
    """Run each case in one go here, and from a checkpoint in one other process for all."""
    finals = {}
    for name in names:
        tensors = cases.parameters()
        optimizer = cases.cases()[name](list(tensors.values()))
        start(tensors, optimizer)
        cases.run_steps(tensors, optimizer, 0, BEFORE)
        snapshot = take(tensors, optimizer, step=BEFORE)
        CheckpointStore(directory / "saved" / name).save(snapshot).rename(directory / name)
        cases.run_steps(tensors, optimizer, BEFORE, AFTER)
        finals[name] = cases.values(tensors)
    command = [sys.executable, cases.__file__, str(directory), str(AFTER)]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    for name, final in finals.items():
        with np.load(directory / f"{name}.npz") as resumed:
            assert cases.same_bits(dict(resumed), final), name


def test_optimizers_resume_to_the_same_bits(tmp_path: Path) -> None:
    assert_resumes(tmp_path, CHOSEN)


@pytest.mark.slow
def test_every_optimizer_with_every_option_resumes_to_the_same_bits(tmp_path: Path) -> None:
    names = cases.cases()
    assert len(names) == 2 * 13 + 3 + 1
    assert_resumes(tmp_path, names)


@st.composite
def optimizers(draw: st.DrawFn) -> Callable[[list[Tensor]], Optimizer]:
    """An optimizer with hyperparameters of any size."""
    small = st.floats(0, 0.5, width=32)
    rate, decay, fused = draw(small), draw(small), draw(st.booleans())
    kind = draw(st.sampled_from((SGD, LARS, Muon, Adam, AdamW, LAMB)))
    if kind in (SGD, LARS, Muon):
        options = {"momentum": draw(small), "nesterov": draw(st.booleans())}
        if kind is not Muon:
            options["classic"] = draw(st.booleans())
    else:
        options = {"b1": draw(small), "b2": 1 - draw(small)}
    if kind is not Adam:
        options["weight_decay"] = decay
    fused = fused and kind is not Muon
    return lambda params: kind(params, lr=rate, fused=fused, **options)


@pytest.mark.slow
@given(optimizers(), st.integers(0, 2), st.integers(1, 2))
@settings(max_examples=30, deadline=None)
def test_resuming_is_the_same_for_all_values(
    make: Callable[[list[Tensor]], Optimizer], before: int, after: int
) -> None:
    tensors, resumed = cases.parameters(), cases.parameters(seed=99)
    optimizer = make(list(tensors.values()))
    start(tensors, optimizer)
    cases.run_steps(tensors, optimizer, 0, before)
    snapshot = take(tensors, optimizer, step=before)
    cases.run_steps(tensors, optimizer, before, after)
    other = make(list(resumed.values()))
    restore(snapshot, resumed, other)
    cases.run_steps(resumed, other, before, after)
    assert take(resumed, other, step=9) == take(tensors, optimizer, step=9)


@pytest.mark.parametrize("name", ["sgd-heavy-popular-each", "adam-fused"])
def test_weights_alone_do_not_resume(name: str) -> None:
    make = cases.cases()[name]
    tensors, continued = cases.parameters(), cases.parameters()
    optimizer = make(list(tensors.values()))
    cases.run_steps(tensors, optimizer, 0, BEFORE)
    # The weights are right, but a new optimizer knows nothing of the steps before.
    for tensor, other in zip(continued.values(), tensors.values(), strict=True):
        write(tensor, read(other))
    cases.run_steps(tensors, optimizer, BEFORE, AFTER)
    cases.run_steps(continued, make(list(continued.values())), BEFORE, AFTER)
    assert not cases.same_bits(cases.values(continued), cases.values(tensors))
