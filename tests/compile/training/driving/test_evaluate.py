"""Evaluation: perfect answers are perfect, shifted ones are off by the shift; the command."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from compile.cli import main
from compile.reference.heads import output_slices
from compile.reference.shipped import rounded, shipped
from compile.reference.topology import SMALL, TOPOLOGIES, Topology
from compile.reference.weights import seeded
from compile.training.checkpoint import CheckpointStore
from compile.training.driving import judge
from compile.training.driving.config import DrivingConfig, Phase
from compile.training.driving.data import Batch, make_batch
from compile.training.driving.evaluate import GOALS, Metrics, evaluate, measured, save_report
from compile.training.driving.targets import places, target_spans
from compile.training.driving.trainer import DrivingTrainer
from compile.training.loop import CHECKPOINTS

TINY = Topology("tiny", 4, (8, 8, 8, 8), (0, 1, 0, 0), (2, 2), 16, 2, 16)


def answers(batch: Batch, **shift: float) -> np.ndarray:
    """What a network would say that knows the truth; `shift` is added to a head's means."""
    outputs = np.zeros((*batch.numbers.shape[:2], 2066), np.float32)
    for head, span in target_spans().items():
        outputs[..., places(head)[0]] = batch.numbers[..., span] + shift.get(head, 0.0)
    outputs[..., output_slices()["lane_lines_prob"]] = 20 * batch.chances[..., :8] - 10
    return outputs


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    return [make_batch(4, number, 4, 3) for number in range(6)]


def metrics_of(batches: list[Batch], **shift: float) -> Metrics:
    luma = np.full((4, 4, 128, 256), 90, np.uint8)
    return measured([(batch, answers(batch, **shift), luma) for batch in batches])


def test_the_truth_meets_every_goal(batches: list[Batch]) -> None:
    metrics = metrics_of(batches)
    assert metrics.values() == pytest.approx((0, 0, 1, 0, 0, 1, 1, 1), abs=1e-6)
    assert metrics.passed()
    assert all(len(errors) > 20 for errors in metrics.line_errors.values())


def test_what_is_off_is_measured_as_far_as_it_is_off(batches: list[Batch]) -> None:
    shifted = metrics_of(batches, lane_lines=0.2, plan=0.3)
    near, far, _, path, *_ = shifted.values()
    assert (near, far) == pytest.approx((0.2, 0.2), abs=1e-5)
    # Along the path too, so that a bend counts a little more or less.
    assert path == pytest.approx(0.3, abs=0.02)
    summary = shifted.summary()
    assert summary["lane line error at 20 m, median"]["met"] is False
    assert summary["lane line error at 40 m, median"]["met"] is True
    assert not shifted.passed()


def test_a_report_has_numbers_and_pictures(batches: list[Batch], tmp_path: Path) -> None:
    save_report(metrics_of(batches, lane_lines=0.2), tmp_path / "report")
    summary = json.loads((tmp_path / "report" / "metrics.json").read_text())
    assert list(summary) == [goal.name for goal in GOALS]
    for name in ("errors.png", "samples.png"):
        assert (tmp_path / "report" / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow  # compiles the network
def test_an_untrained_network_meets_no_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TOPOLOGIES, "tiny", TINY)
    metrics = evaluate(seeded(TINY, 1), "tiny", drives=4, steps=2)
    assert len(metrics.path_errors) == 8
    assert not metrics.passed()


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch, batches: list[Batch]) -> dict[str, np.ndarray]:
    """In place of the measurement: the truth; filled with the weights that were to be measured."""
    seen: dict[str, np.ndarray] = {}

    def pretend(weights: dict[str, np.ndarray], *_: object, **__: object) -> Metrics:
        seen.update(weights)
        return metrics_of(batches, lane_lines=0.0 if "feature.bias" in weights else 9.0)

    monkeypatch.setattr(judge, "evaluate", pretend)
    return seen


def test_a_run_is_measured_and_released_with_its_record(
    evaluated: dict[str, np.ndarray], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = DrivingConfig(phases=(Phase(1, 1, steps=1, rate=1e-3),))
    trainer = DrivingTrainer(config, tmp_path / "features", seeded(SMALL, 1))
    CheckpointStore(tmp_path / "run" / CHECKPOINTS).save(trainer.snapshot())
    folder = tmp_path / "package"
    arguments = ["evaluate", str(tmp_path / "run"), "--out", str(tmp_path / "out")]
    assert main([*arguments, "--release", str(folder), "--drives", "8"]) == 0
    assert capsys.readouterr().out.count("ok\n") == len(GOALS)
    weights, record = shipped("small", folder)
    # Measured is what is shipped: rounded to float16.
    assert all(np.array_equal(weights[n], evaluated[n]) for n in weights)
    assert weights.keys() == seeded(SMALL, 1).keys()
    assert np.array_equal(weights["feature.weight"], rounded(seeded(SMALL, 1))["feature.weight"])
    assert record["config"]["run.seed"] == 1 and record["config"]["phases[0].rate"] == 1e-3
    assert len(record["checkpoint"]["sha256"]) == 64
    assert len(record["started_from"]) == 64
    assert record["evaluation"]["drives"] == 8
    assert record["evaluation"]["goals"]["path curvature at 0.5 s, correlation"]["met"] is True
    assert (folder / "small.safetensors").stat().st_size < 6e6


def test_a_missed_goal_is_the_exit_status(
    evaluated: dict[str, np.ndarray], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_file({"other": np.zeros(1, np.float32)}, tmp_path / "x.safetensors")
    arguments = ["evaluate", str(tmp_path / "x.safetensors"), "--out", str(tmp_path / "out")]
    assert main(arguments) == 1
    assert "lane line error at 20 m, median              9.0000  (goal 0.15)  MISSED\n" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.safetensors"], "cannot read weights nowhere.safetensors"),
        (["--drives", "0"], "0 drives measure nothing; use 1 or more"),
        (["--size", "large"], "trained weights of size large cannot be read"),
        (["{folder}"], "has no checkpoint; name a run's directory"),
        (["{folder}/x.safetensors", "--release", "{folder}"], "only a run knows how its weights"),
    ],
)
def test_wrong_requests_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    save_file({"other": np.zeros(1, np.float32)}, tmp_path / "x.safetensors")
    filled = [argument.format(folder=tmp_path) for argument in arguments]
    assert main(["evaluate", *filled]) == 1
    error = capsys.readouterr().err
    assert error.startswith("modeld-compile: error: ") and message in error
    assert error.count("\n") == 1
