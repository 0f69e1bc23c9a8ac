"""What a snapshot holds, and what it refuses to be restored into."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import training_cases as cases
from tinygrad import Tensor, dtypes
from tinygrad.nn.optim import LAMB, SGD, Adam, Muon, Optimizer, OptimizerGroup

from compile.training import converters
from compile.training.placement import write
from compile.training.randomness import random_state, set_random_state
from compile.training.schedule import Schedule
from compile.training.snapshot import Parameters, Snapshot, restore, start, take
from compile.training.stored import StoredTensor
from modeld.errors import ModeldError

Make = Callable[[list[Tensor]], Optimizer]


def snapshot_of(make: Make, tensors: Parameters | None = None, **options: object) -> Snapshot:
    tensors = cases.parameters() if tensors is None else tensors
    optimizer = make(list(tensors.values()))
    start(tensors, optimizer)
    return take(tensors, optimizer, step=7, **options)


def refusal(
    snapshot: Snapshot, make: Make, tensors: Parameters | None = None, **options: object
) -> str:
    tensors = cases.parameters() if tensors is None else tensors
    with pytest.raises(ModeldError) as caught:
        restore(snapshot, tensors, make(list(tensors.values())), **options)
    return str(caught.value)


def adam(params: list[Tensor]) -> Optimizer:
    return Adam(params, fused=False)


def test_all_that_resumes_a_run_is_there() -> None:
    schedule = Schedule("cosine", 0.125, 100)
    snapshot = snapshot_of(
        lambda p: Adam(p, lr=0.125, b1=0.5, fused=True), schedule=schedule, position={"epoch": 3}
    )
    record = snapshot.record
    (optimizer,) = record.optimizers
    assert (record.step, record.schedule, record.position) == (7, schedule, {"epoch": 3})
    assert (optimizer.kind, optimizer.fused, optimizer.state_dtype) == ("Adam", True, "float32")
    assert optimizer.parameters == ("weight", "bias")
    assert {n: s.value for n, s in optimizer.scalars.items()} == {"lr": 0.125, "b1_t": 1, "b2_t": 1}
    # By name and slot though the optimizer keeps one flat tensor a slot.
    assert snapshot.state.keys() == {
        (0, slot, name) for slot in "mv" for name in ("weight", "bias")
    }
    assert snapshot.state[0, "m", "weight"] == StoredTensor("float32", (3, 4), bytes(48))


def test_tied_and_untrained_tensors() -> None:
    weight, running = Tensor.ones(2, 2).contiguous(), Tensor.zeros(2).contiguous()
    tensors = {"first": weight, "second": weight, "running": running.is_param_(False)}
    snapshot = snapshot_of(adam, tensors)
    assert snapshot.parameters.keys() == {"first", "running"}
    assert snapshot.record.optimizers[0].parameters == ("first",)
    apart = {name: Tensor.zeros(2, 2).contiguous() for name in ("first", "second")}
    apart["running"] = Tensor.zeros(2).contiguous().is_param_(False)
    text = refusal(snapshot, adam, apart)
    assert "the tie of second is first in the checkpoint, to nothing here" in text


def other(**changes: object) -> Parameters:
    return {**cases.parameters(), **changes}  # type: ignore[dict-item]


REFUSALS: dict[str, tuple[Make, Make, Parameters | None, str]] = {
    "optimizer": (
        adam,
        lambda p: SGD(p, fused=False),
        None,
        "the optimizer is Adam in the checkpoint, SGD here",
    ),
    "same class, other optimizer": (
        adam,
        lambda p: LAMB(p, eps=1e-8, fused=False),
        None,
        "adam of the optimizer is True in the checkpoint, False here",
    ),
    "hyperparameter": (
        lambda p: SGD(p, momentum=0.9, fused=False),
        lambda p: SGD(p, momentum=0.8, fused=False),
        None,
        "momentum of the optimizer is 0.9 in the checkpoint, 0.8 here",
    ),
    "fusion": (
        adam,
        lambda p: Adam(p, fused=True),
        None,
        "the optimizer is not fused in the checkpoint, fused here",
    ),
    "group": (
        adam,
        lambda p: OptimizerGroup(adam(p)),
        None,
        "the optimizer is Adam in the checkpoint, a group of Adam here",
    ),
    "order": (
        adam,
        lambda p: adam(p[::-1]),
        None,
        "the order of parameters of the optimizer is weight, bias in the checkpoint, "
        "bias, weight here",
    ),
    "parameter set": (
        adam,
        adam,
        {"weight": Tensor.ones(3, 4).contiguous(), "offset": Tensor.ones(1, 3).contiguous()},
        "parameter bias is present in the checkpoint, missing here; "
        "parameter offset is missing in the checkpoint, present here",
    ),
    "shape": (
        adam,
        adam,
        other(bias=Tensor.ones(3, 1).contiguous()),
        "the shape of bias is (1, 3) in the checkpoint, (3, 1) here",
    ),
    "element type": (
        adam,
        adam,
        other(bias=Tensor.ones(1, 3, dtype=dtypes.float16).contiguous()),
        "the element type of bias is float32 in the checkpoint, float16 here",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_name_both_sides(name: str) -> None:
    saved, here, tensors, text = REFUSALS[name]
    assert text in refusal(snapshot_of(saved), here, tensors)


def test_refusal_of_another_state_dtype() -> None:
    text = "OPTIM_DTYPE of the optimizer is float16 in the checkpoint, float32 here"
    assert text in refusal(converters.with_state_dtype(snapshot_of(adam), "float16"), adam)


def test_refusal_of_another_schedule_and_tinygrad() -> None:
    snapshot = snapshot_of(adam, schedule=Schedule("linear", 0.5, 10))
    old = replace(snapshot, record=replace(snapshot.record, tinygrad="0.13.0"))
    text = refusal(old, adam)
    assert "tinygrad's version is 0.13.0 in the checkpoint, 0.14.0 here" in text
    assert "the schedule is linear at 0.5 over 10 steps in the checkpoint, None here" in text
    restore_into(converters.for_this_tinygrad(old), adam, schedule=Schedule("linear", 0.5, 10))


def restore_into(snapshot: Snapshot, make: Make, **options: object) -> Parameters:
    tensors = cases.parameters(seed=5)
    restore(snapshot, tensors, make(list(tensors.values())), **options)
    return tensors


def test_nothing_is_changed_by_a_refused_snapshot() -> None:
    tensors = cases.parameters(seed=5)
    optimizer = SGD(list(tensors.values()), fused=False)
    before, random = cases.values(tensors), random_state()
    with pytest.raises(ModeldError):
        restore(snapshot_of(adam), tensors, optimizer)
    assert cases.same_bits(cases.values(tensors), before)
    assert random_state() == random


def test_a_restored_run_keeps_its_memory() -> None:
    """Kernels that were captured before see the restored values."""
    tensors = cases.parameters(seed=5)
    optimizer = adam(list(tensors.values()))
    start(tensors, optimizer)
    held = [t.uop for t in (*tensors.values(), *optimizer.m, optimizer.lr)]
    restore(snapshot_of(lambda p: Adam(p, lr=0.5, fused=False)), tensors, optimizer)
    assert [t.uop for t in (*tensors.values(), *optimizer.m, optimizer.lr)] == held
    assert optimizer.lr.item() == 0.5


def test_parameters_without_names_and_unknown_optimizers() -> None:
    tensors = cases.parameters()
    optimizer = adam([*tensors.values(), Tensor.ones(5).contiguous()])
    start(tensors, optimizer)
    with pytest.raises(ModeldError, match=r"parameter 2 of an optimizer, of shape \(5,\), has no"):
        take(tensors, optimizer, step=1)

    class Other(Optimizer):
        pass

    with pytest.raises(ModeldError, match="the state of a Other is not known"):
        take(tensors, Other(list(tensors.values()), 0.1), step=1)


def test_a_learning_rate_inside_the_kernels_is_refused() -> None:
    tensors = cases.parameters()
    optimizer = adam(list(tensors.values()))
    start(tensors, optimizer)
    # What tinygrad makes when CONST_LR is set.
    optimizer.lr = Tensor(0.1)
    with pytest.raises(ModeldError, match="CONST_LR is set"):
        take(tensors, optimizer, step=1)


def test_a_diverged_learning_rate_is_refused() -> None:
    tensors = cases.parameters()
    optimizer = adam(list(tensors.values()))
    start(tensors, optimizer)
    write(optimizer.lr, StoredTensor("float32", (1,), np.float32("nan").tobytes()))
    with pytest.raises(ModeldError, match="lr of an optimizer is nan"):
        take(tensors, optimizer, step=1)


def test_random_numbers_go_on_where_they_were() -> None:
    Tensor.manual_seed(11)
    Tensor.rand(5).realize()
    state = random_state()
    expected = Tensor.rand(5).numpy()
    Tensor.manual_seed(12)
    Tensor.rand(5).realize()
    set_random_state(state)
    assert Tensor.rand(5).numpy().tobytes() == expected.tobytes()


def test_kinds() -> None:
    kinds = {
        name: snapshot_of(make).record.optimizers[0].kind
        for name, make in cases.cases().items()
        if name.endswith("each")
    }
    assert kinds["muon-nesterov-each"] == "Muon"
    assert {k.partition("-")[0]: v for k, v in kinds.items()} == {
        "sgd": "SGD", "lars": "LARS", "muon": "Muon", "adam": "Adam", "adamw": "AdamW",
        "lamb": "LAMB",
    }  # fmt: skip
    assert snapshot_of(lambda p: Muon(p, fused=False)).record.optimizers[0].trust_ratio is False
