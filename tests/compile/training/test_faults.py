"""What tinygrad's optimizers do when misused or interrupted, and what a user then sees."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import training_cases as cases
from tinygrad import Context, Tensor
from tinygrad.nn.optim import SGD, Adam, Optimizer, OptimizerGroup
from tinygrad.runtime.ops_cl import CLProgram

from compile.training.checkpoint import CheckpointStore, load
from compile.training.optimizers import require_gradients
from compile.training.snapshot import Parameters, restore, start, take
from compile.training.stepping import whole_step
from modeld.errors import ModeldError

STEPS = 2


@pytest.fixture
def run() -> tuple[Parameters, Optimizer]:
    """A run after STEPS whole steps."""
    tensors = cases.parameters()
    optimizer = Adam(list(tensors.values()), lr=0.05, fused=False)
    start(tensors, optimizer)
    cases.run_steps(tensors, optimizer, 0, STEPS)
    return tensors, optimizer


def give_gradients(tensors: Parameters) -> None:
    for tensor in tensors.values():
        tensor.grad = Tensor.ones(*tensor.shape).contiguous().realize()


def test_a_negative_rate_and_no_parameters_are_refused_by_tinygrad() -> None:
    tensors = list(cases.parameters().values())
    with pytest.raises(ValueError, match=r"Invalid learning rate: -0\.1"):
        SGD(tensors, lr=-0.1)
    with pytest.raises(AssertionError, match="at least one param"):
        SGD([tensor.is_param_(False) for tensor in tensors])


def test_parameters_are_taken_once_and_buffers_are_not_trained() -> None:
    weight, buffer = Tensor.ones(2), Tensor.ones(3).is_param_(False)
    optimizer = SGD([weight, weight, buffer])
    assert len(optimizer.params) == len(optimizer.buffers) == 1


def test_zero_grad_means_none(run: tuple[Parameters, Optimizer]) -> None:
    tensors, optimizer = run
    give_gradients(tensors)
    optimizer.zero_grad()
    assert all(tensor.grad is None for tensor in tensors.values())


def test_a_step_needs_training_mode_and_changes_nothing_without(
    run: tuple[Parameters, Optimizer],
) -> None:
    tensors, optimizer = run
    before = take(tensors, optimizer, step=STEPS)
    give_gradients(tensors)
    for step in (optimizer.step, optimizer.schedule_step):
        with pytest.raises(RuntimeError, match="TRAINING must be enabled"):
            step()
    assert take(tensors, optimizer, step=STEPS) == before


def test_a_missing_gradient_is_named_before_anything_is_assigned(
    run: tuple[Parameters, Optimizer],
) -> None:
    tensors, optimizer = run
    give_gradients(tensors)
    tensors["bias"].grad = None
    with pytest.raises(ModeldError, match=r"^no gradient for bias; call backward"):
        require_gradients(optimizer, tensors)
    # tinygrad's own: names nothing.
    with Context(TRAINING=1), pytest.raises(AssertionError) as caught:
        optimizer.step()
    assert str(caught.value) == ""


def test_scheduling_a_step_is_half_of_it(run: tuple[Parameters, Optimizer]) -> None:
    """There is no way to look at a step without beginning it."""
    tensors, optimizer = run
    give_gradients(tensors)
    with Context(TRAINING=1):
        scheduled = optimizer.schedule_step()
    with pytest.raises(ModeldError, match=r"^weight is yet to be computed"):
        take(tensors, optimizer, step=STEPS)
    Tensor.realize(*scheduled)
    take(tensors, optimizer, step=STEPS + 1)


def test_overlapping_parameters_get_one_update_after_the_other() -> None:
    tensors = cases.parameters()
    give_gradients(tensors)
    both = OptimizerGroup(
        SGD(list(tensors.values()), lr=0.5, fused=False), SGD([tensors["bias"]], lr=0.25)
    )
    before = cases.values(tensors)
    with Context(TRAINING=1):
        both.step()
    assert (tensors["weight"].numpy() == before["weight"] - 0.5).all()
    assert (tensors["bias"].numpy() == before["bias"] - 0.5 - 0.25).all()


def fail_assigning(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Optimizer, tensor: Tensor, update: Tensor) -> Tensor:
        if tensor is self.params[1]:
            raise RuntimeError("interrupted")
        return tensor.detach() - update

    monkeypatch.setattr(Optimizer, "_apply_update", fail)


def fail_computing(monkeypatch: pytest.MonkeyPatch) -> None:
    launch, launches = CLProgram.__call__, iter(range(4))

    def fail(self: CLProgram, *args: Any, **options: Any) -> Any:
        if next(launches, None) is None:
            raise RuntimeError("device lost")
        return launch(self, *args, **options)

    monkeypatch.setattr(CLProgram, "__call__", fail)


@pytest.mark.parametrize("fail", [fail_assigning, fail_computing])
def test_a_step_that_fails_half_way_is_never_saved(
    run: tuple[Parameters, Optimizer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fail: Callable[[pytest.MonkeyPatch], None],
) -> None:
    tensors, optimizer = run
    store = CheckpointStore(tmp_path)
    good = store.save(take(tensors, optimizer, step=STEPS))
    with monkeypatch.context() as patch:
        fail(patch)
        with pytest.raises(RuntimeError), whole_step(optimizer):
            cases.run_steps(tensors, optimizer, STEPS, 1)
    with pytest.raises(ModeldError, match="a step failed half-way"):
        take(tensors, optimizer, step=STEPS + 1)
    assert store.latest() == good
    # The same objects go on as if nothing had happened.
    restore(load(good), tensors, optimizer)
    cases.run_steps(tensors, optimizer, STEPS, 1)
    assert_equals_a_whole_run(tensors)
    take(tensors, optimizer, step=STEPS + 1)


def assert_equals_a_whole_run(tensors: Parameters) -> None:
    whole = cases.parameters()
    cases.run_steps(whole, Adam(list(whole.values()), lr=0.05, fused=False), 0, STEPS + 1)
    assert cases.same_bits(cases.values(tensors), cases.values(whole))
