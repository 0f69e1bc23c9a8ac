"""Snapshots converted to fit another program; what is lossless comes back to the same bytes."""

import pytest
import training_cases as cases
from hypothesis import given, settings
from hypothesis import strategies as st
from tinygrad.nn.optim import LAMB, Adam, Muon, Optimizer, OptimizerGroup

from compile.training import converters
from compile.training.placement import Placement, on_devices
from compile.training.snapshot import Parameters, Snapshot, restore, start, take
from compile.training.stored import StoredTensor
from modeld.errors import ModeldError


def run(optimizer_of: object, steps: int = 1) -> tuple[Parameters, Optimizer]:
    tensors = cases.parameters()
    optimizer = optimizer_of(list(tensors.values()))  # type: ignore[operator]
    start(tensors, optimizer)
    cases.run_steps(tensors, optimizer, 0, steps)
    return tensors, optimizer


@pytest.fixture(scope="module")
def each() -> Snapshot:
    return take(*run(lambda p: Adam(p, lr=0.05, fused=False)), step=1)


def test_fused_and_not_fused_have_the_same_state(each: Snapshot) -> None:
    fused = take(*run(lambda p: Adam(p, lr=0.05, fused=True)), step=1)
    converted = converters.with_fusion(each, True)
    assert (converted.state, converted.record) == (fused.state, fused.record)
    assert converters.with_fusion(converted, False) == each


def test_converted_state_reaches_the_fused_optimizer(each: Snapshot) -> None:
    tensors = cases.parameters(seed=4)
    optimizer = Adam(list(tensors.values()), lr=0.05, fused=True)
    restore(converters.with_fusion(each, True), tensors, optimizer)
    assert len(optimizer.m) == 1
    restored = take(tensors, optimizer, step=1)
    assert (restored.state, restored.parameters) == (each.state, each.parameters)


def test_fusing_what_would_then_step_otherwise_is_refused() -> None:
    snapshot = take(*run(lambda p: LAMB(p, fused=False), steps=0), step=0)
    with pytest.raises(ModeldError, match="LAMB takes the norm of each parameter unfused"):
        converters.with_fusion(snapshot, True)
    fused = converters.with_fusion(snapshot, True, accept_other_trust_ratio=True)
    assert fused.record.optimizers[0].fused
    muon = take(*run(lambda p: Muon(p, fused=False), steps=0), step=0)
    with pytest.raises(ModeldError, match="Muon cannot be fused"):
        converters.with_fusion(muon, True)


def test_a_group_is_converted_as_one() -> None:
    snapshot = take(*run(cases.GROUPS["group-overlapping"]), step=1)
    assert [o.fused for o in snapshot.record.optimizers] == [True, False]
    unfused = converters.with_fusion(snapshot, False)
    tensors = cases.parameters(seed=4)
    adam = Adam(list(tensors.values()), lr=0.01, fused=False)
    sgd = cases.SINGLE["sgd-heavy-popular"]([tensors["bias"]], fused=False)
    sgd.momentum = 0.5
    restore(unfused, tensors, OptimizerGroup(adam, sgd))
    assert take(tensors, OptimizerGroup(adam, sgd), step=1).state == snapshot.state


def test_names_and_order(each: Snapshot) -> None:
    named = converters.renamed(each, {"weight": "layer.weight"})
    assert set(named.parameters) == {"layer.weight", "bias"}
    assert named.state[0, "m", "layer.weight"] == each.state[0, "m", "weight"]
    assert converters.renamed(named, {"layer.weight": "weight"}) == each
    turned = converters.reordered(each, ["bias", "weight"])
    tensors = cases.parameters(seed=4)
    optimizer = Adam([tensors["bias"], tensors["weight"]], lr=0.05, fused=False)
    restore(turned, tensors, optimizer)
    assert take(tensors, optimizer, step=1).state == each.state
    assert converters.reordered(turned, ["weight", "bias"]) == each


def test_names_can_be_swapped(each: Snapshot) -> None:
    swap = {"weight": "bias", "bias": "weight"}
    swapped = converters.renamed(each, swap)
    assert swapped.parameters["bias"] == each.parameters["weight"]
    assert converters.renamed(swapped, swap) == each


def test_wrong_names_are_refused(each: Snapshot) -> None:
    with pytest.raises(ModeldError, match="has no parameter gain"):
        converters.renamed(each, {"gain": "x"})
    with pytest.raises(ModeldError, match="two parameters would be named bias"):
        converters.renamed(each, {"weight": "bias"})
    with pytest.raises(ModeldError, match="the order names bias, the checkpoint has weight, bias"):
        converters.reordered(each, ["bias"])
    with pytest.raises(ModeldError, match="has no parameter gain"):
        converters.moved(each, {"gain": Placement(("CL",))})


def test_splitting_needs_an_axis_that_divides(each: Snapshot) -> None:
    for axis in (0, 2):
        with pytest.raises(ModeldError, match=f"cannot be split along {axis} over CL and CL:1"):
            converters.moved(each, {"weight": on_devices("CL:0", "CL:1", axis=axis)})
    split = converters.moved(each, {"weight": on_devices("CL:0", "CL:1", axis=1)})
    assert split.record.parameters[0].placement == Placement(("CL", "CL:1"), 1)
    assert converters.moved(split, {"weight": on_devices("CL")}) == each


def test_narrower_state_is_rounded_and_wider_is_not(each: Snapshot) -> None:
    wide = converters.with_state_dtype(each, "float64")
    assert converters.with_state_dtype(wide, "float32") == each
    narrow = converters.with_state_dtype(each, "float16")
    assert narrow.state[0, "v", "bias"].dtype == "float16"
    assert converters.with_state_dtype(narrow, "float32") != each
    assert narrow.parameters == each.parameters
    with pytest.raises(ModeldError, match="element type 'float12' is unknown"):
        converters.with_state_dtype(each, "float12")


@given(st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=4), st.randoms())
@settings(max_examples=50, deadline=None)
def test_flat_state_is_taken_apart_and_put_together(
    shapes: list[list[int]], random: object
) -> None:
    from compile.training.optimizers import _apart, _together

    tensors = []
    for shape in shapes:
        size = 2
        for length in shape:
            size *= length
        data = bytes(random.randrange(256) for _ in range(size))  # type: ignore[attr-defined]
        tensors.append(StoredTensor("bfloat16", tuple(shape), data))
    flat = _together(tensors, "bfloat16")
    assert list(_apart(flat, [t.shape for t in tensors])) == tensors
