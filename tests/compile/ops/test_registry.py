"""The operator table."""

import pytest

from compile.ops import build_op_table
from compile.ops.registry import Op, make_table, select


def test_the_newest_entry_that_is_not_too_new_is_chosen() -> None:
    table = make_table([Op("A", lambda x: x, since=n) for n in (1, 13, 7)])
    assert [select(table, "", "A", n).since for n in (1, 6, 7, 12, 13, 99)] == [1, 1, 7, 7, 13, 13]  # type: ignore[union-attr]
    assert select(table, "", "B", 20) is None
    assert select(table, "com.example", "A", 20) is None
    assert select(table, "ai.onnx", "A", 20) is not None


def test_nothing_is_chosen_for_an_older_opset() -> None:
    assert select(make_table([Op("A", lambda x: x, since=7)]), "", "A", 6) is None


def test_two_entries_of_one_opset_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="A is registered twice for opset 1"):
        make_table([Op("A", lambda x: x), Op("A", lambda x: -x)])


def test_attributes_that_an_operator_does_not_take_are_listed() -> None:
    op = Op("A", lambda x, alpha=1.0: x * alpha)
    assert op.unknown_attributes(["beta", "alpha", "consumed_inputs"]) == ["beta"]


def test_the_table_holds_no_training_or_random_operators() -> None:
    names = {name for _, name in build_op_table()}
    assert not names & {"Adam", "Momentum", "Adagrad", "Gradient", "RandomNormal", "Bernoulli"}
