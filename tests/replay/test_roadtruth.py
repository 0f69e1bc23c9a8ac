"""Answers about the painted road against its truth."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from modeld.constants import X_IDXS
from modeld.replay.road.errors import path_error, sideways_error
from modeld.replay.road.truth import Truth
from modeld.replay.roadtruth import road_errors, road_truths
from modeld.replay.scene import Lead, Line, Scene

NUMBERS = range(0, 60, 6)


@pytest.fixture(scope="module")
def truths() -> dict[int, Truth]:
    return road_truths(1, NUMBERS)


def answer(number: int, truth: Truth, aside: float = 0.0, farther: float = 1.0) -> Scene:
    """What a network would say that is `aside` metres off, and sees leads `farther`."""
    lines = tuple(
        Line(np.column_stack([X_IDXS, y + aside, z]), float(painted), 0.1)
        for (y, z), painted in zip(
            truth.lane_lines[0].transpose(0, 2, 1), truth.painted[0], strict=True
        )
    )
    path = truth.plan[0, :, :3] + np.array([0, aside, 0])
    lead = Lead(float(truth.lead[0, 0, 0, 0]) * farther, 0, 0, 1)
    return Scene(number, True, path, lines, (), (lead,), 0, 0, 0, 0, "green")


def test_truth_is_of_the_frames_asked_for(truths: dict[int, Truth]) -> None:
    assert list(truths) == list(NUMBERS)
    # The same drive, looked at more rarely.
    (last,) = road_truths(1, [54]).values()
    assert np.array_equal(last.plan, truths[54].plan)
    assert not np.array_equal(truths[0].plan, truths[54].plan)


def test_the_truth_is_not_off(truths: dict[int, Truth]) -> None:
    errors = road_errors({n: answer(n, truth) for n, truth in truths.items()}, truths)
    assert max(errors.lines[20.0] + errors.lines[40.0] + errors.path) < 1e-5
    assert all(errors.paint) and len(errors.paint) == 4 * len(NUMBERS)


def test_errors_are_as_large_as_they_are(truths: dict[int, Truth]) -> None:
    scenes = {n: answer(n, truth, aside=0.25, farther=1.5) for n, truth in truths.items()}
    errors = road_errors(scenes, truths)
    assert errors.lines[20.0] == pytest.approx([0.25] * len(errors.lines[20.0]), abs=1e-5)
    assert len(errors.lines[20.0]) > 0
    assert errors.path == pytest.approx([0.25] * len(NUMBERS), abs=0.02)
    assert errors.lead == pytest.approx([0.5] * len(errors.lead), abs=1e-5)
    stream = io.StringIO()
    Console(file=stream, width=80).print(errors.table())
    assert "lane lines at 20 m  " in stream.getvalue()
    assert "0.25 m off (median), 0.25 m (9 of 10)" in stream.getvalue()


def test_a_wrong_probability_and_no_answers_are_told(truths: dict[int, Truth]) -> None:
    scene = answer(0, truths[0])
    wrong = tuple(replace(line, probability=1 - line.probability) for line in scene.lane_lines)
    errors = road_errors({0: replace(scene, lane_lines=wrong)}, truths)
    assert errors.paint == [False] * 4
    assert dict(road_errors({}, truths).rows())["path at 2 s"] == "nothing to compare"


def test_distances_between_grid_points_and_times() -> None:
    true = np.zeros(33)
    said = 0.01 * X_IDXS
    # Interpolated on the line, which is straight.
    for distance, error in ((20.0, 0.2), (-1.0, 0.0), (0.0, 0.0), (192.0, 1.92), (200.0, 1.92)):
        assert sideways_error(said, true, distance) == pytest.approx(error)
    path = np.column_stack([np.linspace(0, 100, 33), np.zeros(33)])
    # Late, but on the path.
    assert path_error(path * [0.5, 1], path) == pytest.approx(0, abs=1e-9)
    assert path_error(path + np.array([0, 0.3]), path) == pytest.approx(0.3)
