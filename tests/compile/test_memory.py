"""The memory plan: no two live tensors overlap, everything is aligned, small things are packed."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compile.capture import Capture, Launch, Operand, Storage
from compile.memory import ALIGNMENT, lifetimes, plan_memory
from modeld.manifest import Contract, StatePair, Tensor


def contract(
    inputs: tuple[Tensor, ...] = (),
    outputs: tuple[Tensor, ...] = (),
    state: tuple[StatePair, ...] = (),
) -> Contract:
    return Contract("generic", "generic", inputs, outputs, state, (), (), ())


def launch(*operands: Operand) -> Launch:
    return Launch("", "k", (1,), None, operands, "")


def operand(storage: int, size: int, access: str) -> Operand:
    return Operand(storage, 0, size, access)


@st.composite
def programs(draw: st.DrawFn) -> Capture:
    """Launches that each write a new scratch tensor and read some of the earlier ones."""
    sizes = draw(st.lists(st.integers(1, 5000), min_size=1, max_size=25))
    launches = []
    for index, size in enumerate(sizes):
        reads = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        launches.append(
            launch(
                operand(index, size, "write"),
                *(operand(other, sizes[other], "read") for other in sorted(reads)),
            )
        )
    storages = tuple(Storage("scratch", "", size) for size in sizes)
    return Capture(tuple(launches), storages, {})


@settings(deadline=None)
@given(programs())
def test_live_tensors_never_overlap(capture: Capture) -> None:
    plan = plan_memory(capture, contract())
    spans = lifetimes(capture)
    (arena,) = plan.buffers
    for index, place in enumerate(plan.ranges):
        assert place.buffer == "arena" and place.offset % ALIGNMENT == 0
        assert place.offset + place.bytes <= arena.bytes
        assert place.bytes == capture.storages[index].bytes
        for other in range(index):
            there = plan.ranges[other]
            apart = (
                place.offset + place.bytes <= there.offset
                or there.offset + there.bytes <= place.offset
            )
            (first, last), (other_first, other_last) = spans[index], spans[other]
            assert apart or last < other_first or other_last < first


@settings(deadline=None)
@given(programs())
def test_arguments_of_one_launch_never_overlap(capture: Capture) -> None:
    plan = plan_memory(capture, contract())
    for step in capture.launches:
        arguments = sorted((plan.argument(o) for o in step.operands), key=lambda a: a.offset)
        for before, after in itertools.pairwise(arguments):
            assert before.offset + before.bytes <= after.offset


def test_chain_needs_two_tensors_at_a_time() -> None:
    # t0 → t1 → … → t9: only neighbours are alive together.
    size = 1024
    launches = [launch(operand(0, size, "write"))]
    launches += [
        launch(operand(i, size, "write"), operand(i - 1, size, "read")) for i in range(1, 10)
    ]
    storages = tuple(Storage("scratch", "", size) for _ in range(10))
    plan = plan_memory(Capture(tuple(launches), storages, {}), contract())
    assert [(b.name, b.bytes) for b in plan.buffers] == [("arena", 2 * size)]


def test_small_inputs_and_outputs_are_packed_and_state_is_apart() -> None:
    given_contract = contract(
        inputs=(
            Tensor("desire", (1, 8), "float32"),
            Tensor("new_img", (2, 6, 128, 256), "uint8"),
            Tensor("q", (5, 3), "float32"),
            Tensor("t", (1, 2), "float32"),
        ),
        outputs=(
            Tensor("outputs", (1, 100), "float32"),
            Tensor("next_q", (5, 3), "float32"),
            Tensor("flag", (), "bool"),
        ),
        state=(StatePair("q", "next_q"),),
    )
    storages = (
        Storage("input", "t", 8),
        Storage("output", "next_q", 60),
        Storage("weight", "w", 700, np.zeros(175, np.float32)),
        Storage("weight", "v", 4, np.zeros(1, np.float32)),
    )
    step = launch(
        operand(1, 60, "write"),
        operand(0, 8, "read"),
        operand(2, 700, "read"),
        Operand(3, 0, 4, "read"),
    )
    extra = (Tensor("transforms", (2, 3, 3), "float32"),)
    plan = plan_memory(Capture((step,), storages, {"next_q": 1}), given_contract, extra)
    places = {b.tensor: (b.buffer, b.offset, b.bytes) for b in plan.bindings}
    assert places == {
        "transforms": ("inputs", 0, 72),
        "desire": ("inputs", 512, 32),
        "t": ("inputs", 1024, 8),
        "new_img": ("new_img", 0, 393216),
        "outputs": ("outputs", 0, 400),
        "flag": ("outputs", 512, 1),
        "q": ("q", 0, 60),
        "next_q": ("next_q", 0, 60),
    }
    assert {b.name: (b.bytes, b.role) for b in plan.buffers} == {
        "inputs": (1032, "input"),
        "new_img": (393216, "input"),
        "outputs": (513, "output"),
        "q": (60, "state"),
        "next_q": (60, "state"),
        "weights": (1028, "weights"),
    }
    assert plan.ranges[3].offset == 1024
    assert plan.argument(Operand(3, 2, 2, "read")).offset == 1026
