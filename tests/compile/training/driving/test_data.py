"""Batches, targets and metrics: right places, right values, the same again."""

import os
import select
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from compile.reference.heads import output_slices
from compile.training.driving.data import make_batch
from compile.training.driving.evaluate import GOALS, area_under_curve
from compile.training.driving.targets import (
    CHANCE_WIDTH,
    CHOICE_WIDTH,
    NUMBER_WIDTH,
    NUMBERS,
    least_log_std,
    places,
    target_spans,
    targets_of,
)
from modeld.replay.road.drive import Drive
from modeld.replay.road.truth import truth_of

ROOT = Path(__file__).parents[4]


def test_a_batch_is_a_function_of_seed_and_number() -> None:
    first, again, other = (make_batch(3, number, 2, 3).arrays() for number in (5, 5, 6))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["scenes"], other["scenes"])


def test_workers_make_the_same_batches_and_end_with_a_killed_parent() -> None:
    script = (
        "from compile.training.driving.data import BatchMaker\n"
        "import multiprocessing, time, zlib\n"
        "if __name__ == '__main__':\n"
        "    batch = BatchMaker(3, 1, 2, workers=1).batch(5)\n"
        "    (worker,) = multiprocessing.active_children()\n"
        "    print(worker.pid, zlib.crc32(batch.scenes.tobytes()), flush=True)\n"
        "    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        worker, made = map(int, process.stdout.readline().split())
        descriptor = os.pidfd_open(worker)
        process.kill()
    # Readable once the worker has ended.
    assert select.select([descriptor], [], [], 30)[0]
    os.close(descriptor)
    assert made == zlib.crc32(make_batch(3, 5, 1, 2).scenes.tobytes())


def test_shapes_and_finiteness() -> None:
    arrays = make_batch(0, 0, 3, 4).arrays()
    widths = {"numbers": NUMBER_WIDTH, "weights": NUMBER_WIDTH, "chances": CHANCE_WIDTH}
    widths |= {"choices": CHOICE_WIDTH, "desires": 8, "traffic": 2, "action_t": 2}
    assert arrays["scenes"].shape[0] == arrays["cameras"].shape[0] == 3 * 5
    for name, width in widths.items():
        assert arrays[name].shape == (3, 4, width)
    assert all(np.isfinite(array).all() for array in arrays.values())
    assert (arrays["weights"] >= 0).all()


def test_means_and_deviations_of_all_heads_are_disjoint_places_of_the_outputs() -> None:
    taken = [i for head in NUMBERS for part in places(head) for i in range(*part.indices(2066))]
    assert len(taken) == len(set(taken)) == 2 * NUMBER_WIDTH
    assert places("plan") == (slice(917, 917 + 495), slice(917 + 495, 1907))


def test_speed_and_lateral_acceleration_are_wanted_sharper_than_a_fifth_of_the_scale() -> None:
    least, spans = np.exp(least_log_std()), target_spans()
    assert least.shape == (NUMBER_WIDTH,)
    np.testing.assert_allclose(least[spans["pose"]], [0.2, 0.1, 0.1, 0.004, 0.004, 0.01], rtol=1e-5)
    np.testing.assert_allclose(least[spans["action"]], [0.02, 0.2], rtol=1e-5)


def test_most_of_the_weight_of_the_pose_is_on_the_speed() -> None:
    pose = make_batch(1, 0, 1, 1).weights[0, 0, target_spans()["pose"]]
    np.testing.assert_allclose(pose.sum(), NUMBERS["pose"], rtol=1e-6)
    np.testing.assert_allclose(pose[0], NUMBERS["pose"] * 5 / 6, rtol=1e-6)


def test_numbers_are_the_truth_in_the_order_of_the_heads() -> None:
    drive = Drive(2, 5)
    moment = drive.moment()
    action_t = np.full((5, 2), 0.4, np.float32)
    targets = targets_of(moment, action_t, np.zeros((5, 3), np.float32))
    truth = truth_of(moment)
    lines = targets.numbers[:, :264].reshape(5, 4, 33, 2)
    assert np.array_equal(lines, truth.lane_lines)
    start = 264 + 132 + 6 + 3 + 6
    assert np.array_equal(targets.numbers[:, start : start + 495].reshape(5, 33, 15), truth.plan)
    # Unpainted lines weigh nothing; the eight line logits come in pairs.
    weights = targets.weights[:, :264].reshape(5, 4, -1).max(axis=2)
    assert np.array_equal(weights > 0, truth.painted)
    assert np.array_equal(targets.chances[:, 1:8:2] > 0, truth.painted)


def test_a_lane_change_pulses_once_and_is_then_the_desire() -> None:
    desires = np.concatenate([make_batch(1, n, 16, 25).desires for n in range(4)])
    pulses = desires.sum(axis=(1, 2))
    assert set(np.unique(pulses)) == {0.0, 1.0}
    assert desires[:, :, [0, 1, 2, 5, 6, 7]].sum() == 0


def test_area_under_curve_against_counting_pairs() -> None:
    random = np.random.default_rng(0)
    truth = random.integers(0, 2, 60)
    scores = np.round(random.normal(size=60) + truth, 1)
    yes, no = scores[truth == 1], scores[truth == 0]
    pairs = (yes[:, None] > no).mean() + 0.5 * (yes[:, None] == no).mean()
    assert area_under_curve(scores, truth) == pytest.approx(pairs, abs=1e-12)


def test_goals_know_their_direction() -> None:
    assert GOALS[0].met(0.15)
    assert not GOALS[0].met(0.16)
    assert GOALS[2].met(0.96)
    assert not GOALS[2].met(float("nan"))


def test_slices_of_the_probabilities() -> None:
    assert output_slices()["lane_lines_prob"] == slice(528, 536)
