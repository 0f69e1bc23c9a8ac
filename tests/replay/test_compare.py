"""Comparing logs: what is found, where, and what is left alone."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import msgschema
from modeld.replay.compare import FieldDifference, compare


def model(frame_id: int, change: Callable[[Any], None] = lambda m: None) -> Any:
    built = msgschema.load().Event.new_message(logMonoTime=frame_id * 1000, valid=True)
    content = built.init("modelV2")
    content.frameId = frame_id
    content.position.x = [1.0, 2.0, 3.0]
    lines = content.init("laneLines", 2)
    for line in lines:
        line.y = [0.5, 0.25]
    content.modelExecutionTime = 0.01
    content.rawPredictions = b"abc"
    change(content)
    return built.as_reader()


def odometry(frame_id: int) -> Any:
    built = msgschema.load().Event.new_message(valid=True)
    built.init("cameraOdometry").frameId = frame_id
    return built.as_reader()


def log(changed: dict[int, Callable[[Any], None]] | None = None, count: int = 5) -> list[Any]:
    changed = changed or {}
    return [model(n, changed.get(n, lambda m: None)) for n in range(count)]


def set_field(path: str, value: Any) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        *parents, name = path.split(".")
        for parent in parents:
            content = content.laneLines[1] if parent == "line" else getattr(content, parent)
        setattr(content, name, value)

    return change


def test_equal_logs_are_equal() -> None:
    result = compare(log(), log())
    assert result.equal
    assert (result.messages, result.differences) == (5, ())


def test_one_number_in_one_list_of_one_frame_is_found() -> None:
    result = compare(log(), log({3: set_field("line.y", [0.5, 0.75])}))
    assert not result.equal
    assert result.differences == (FieldDifference("modelV2.laneLines[1].y", 0.5, 3, 3, 1),)


def test_largest_and_first_difference_are_told_apart() -> None:
    changed = {
        n: set_field("position.x", [1.0, 2.0, 3.0 + d]) for n, d in ((1, 0.5), (2, 4.0), (4, 0.25))
    }
    (difference,) = compare(log(), log(changed)).differences
    assert difference == FieldDifference("modelV2.position.x", 4.0, 2, 1, 3)


def test_differences_come_largest_first() -> None:
    both = {1: set_field("position.x", [1.0, 2.0, 3.5]), 2: set_field("line.y", [9.0, 0.25])}
    fields = [d.field for d in compare(log(), log(both)).differences]
    assert fields == ["modelV2.laneLines[1].y", "modelV2.position.x"]


@pytest.mark.parametrize("field", ["modelExecutionTime", "frameDropPerc"])
def test_times_are_never_compared(field: str) -> None:
    assert compare(log(), log({2: set_field(field, 0.5)})).equal


def test_validity_is_compared() -> None:
    events = log()
    built = events[1].as_builder()
    built.valid = False
    (difference,) = compare(log(), [events[0], built.as_reader(), *events[2:]]).differences
    assert (difference.field, difference.first_frame) == ("modelV2.valid", 1)


@settings(deadline=None)
@given(st.floats(0, 10), st.floats(-100, 100), st.floats(-100, 100))
def test_tolerance_is_absolute_below_one_and_relative_above(t: float, a: float, b: float) -> None:
    first, second = (log({0: set_field("position.x", [v])}, 1) for v in (a, b))
    a, b = (events[0].modelV2.position.x[0] for events in (first, second))  # as float32
    assert compare(first, second, t).equal == (abs(a - b) <= t * max(1, abs(b)))


def test_nan_agrees_with_nan_only_and_infinity_with_itself() -> None:
    nan, inf = math.nan, math.inf
    one = log({2: set_field("position.x", [nan, inf, 3.0])})
    assert compare(one, log({2: set_field("position.x", [nan, inf, 3.0])})).equal
    for other in ([1.0, inf, 3.0], [nan, -inf, 3.0], [nan, 1.0, 3.0]):
        (difference,) = compare(one, log({2: set_field("position.x", other)}), 100.0).differences
        assert difference.largest == inf


@pytest.mark.parametrize(
    ("path", "value"),
    [("position.x", [1.0, 2.0]), ("rawPredictions", b"abd"), ("confidence", "green")],
)
def test_what_no_number_says_is_infinite_at_any_tolerance(path: str, value: Any) -> None:
    (difference,) = compare(log(), log({4: set_field(path, value)}), 1e9).differences
    assert (difference.largest, difference.first_frame) == (math.inf, 4)


@pytest.mark.parametrize("name", ["y", "modelV2.laneLines[1].y"])
def test_fields_can_be_left_out(name: str) -> None:
    assert compare(log(), log({3: set_field("line.y", [0.0, 0.0])}), ignore=[name]).equal


def test_missing_frames_are_told_by_service_and_side() -> None:
    first = [*log(), odometry(7)]
    second = [event for event in log() if event.modelV2.frameId not in (1, 4)]
    result = compare(first, second)
    assert result.only_first == {"cameraOdometry": (7,), "modelV2": (1, 4)}
    assert result.only_second == {}
    assert (result.messages, result.equal) == (3, False)
    assert compare(second, first).only_second == {"cameraOdometry": (7,), "modelV2": (1, 4)}


def test_other_messages_and_another_order_do_not_matter() -> None:
    other = msgschema.load().Event.new_message()
    other.init("carState").vEgo = 3.0
    second = [other.as_reader(), *reversed(log())]
    assert compare(log(), second).equal


def test_a_frame_id_that_comes_twice_meets_its_like() -> None:
    restarted = [*log(count=2), *log({0: set_field("position.x", [9.0])}, 2)]
    assert compare(restarted, restarted).equal
    assert not compare(restarted, [*log(count=2), *log(count=2)]).equal


def test_nothing_compared_is_not_equal() -> None:
    assert not compare([], []).equal
