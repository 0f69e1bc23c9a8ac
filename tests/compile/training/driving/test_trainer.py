"""Driving networks trained by `modeld-compile train`, as small as the topology allows."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from safetensors.numpy import load, save

from compile.reference.topology import TOPOLOGIES, Topology
from compile.reference.weights import seeded
from compile.training.checkpoint import CheckpointStore
from compile.training.checkpoint import load as load_checkpoint
from compile.training.display import TrainingDisplay
from compile.training.driving.config import DrivingConfig, Phase, RunConfig
from compile.training.driving.model import is_policy
from compile.training.driving.trainer import DrivingTrainer, rate_factor
from compile.training.history import History
from compile.training.loop import CHECKPOINTS, WEIGHTS, train
from modeld.errors import ModeldError

TINY = Topology("tiny", 4, (8, 8, 8, 8), (0, 1, 0, 0), (2, 2), 16, 2, 16)
CONFIG = DrivingConfig(
    phases=(
        Phase(1, 2, steps=3, rate=1e-3, reuse=2, kept=2),
        Phase(2, 1, steps=2, rate=1e-3, shape="cosine"),
    ),
    run=RunConfig(save_every=2),
)
# No phase there freezes the vision part.
UNUSED = Path("/nowhere")


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> DrivingConfig:
    """A run of two phases on the smallest network."""
    monkeypatch.setitem(TOPOLOGIES, "tiny", TINY)
    return replace(CONFIG, network=replace(CONFIG.network, size="tiny"))


def train_quietly(trainer: DrivingTrainer, out: Path) -> DrivingTrainer:
    display = TrainingDisplay(Console(file=io.StringIO()))
    return train(lambda: trainer, trainer.config.run, out, display)


class Stopped(Exception):
    """In place of a signal."""


def stop_before(trainer: DrivingTrainer, step: int) -> DrivingTrainer:
    """`trainer`, which raises Stopped instead of making that step."""
    take_step = trainer.train_step

    def train_step() -> float:
        if trainer.step == step - 1:
            raise Stopped
        return take_step()

    trainer.train_step = train_step  # type: ignore[method-assign]
    return trainer


@pytest.mark.slow  # some 380 kernels are compiled for each phase
def test_an_interrupted_run_goes_on_to_the_same_bits(config: DrivingConfig, tmp_path: Path) -> None:
    whole = train_quietly(DrivingTrainer(config, UNUSED), tmp_path / "whole")
    assert [len(curve) for curve in whole.history.steps.values()] == [5] * 6
    assert np.isfinite(list(whole.history.steps.values())).all()
    for step in (4, 5):  # in the first phase's last checkpoint interval, and in the second phase
        with pytest.raises(Stopped):
            train_quietly(stop_before(DrivingTrainer(config, UNUSED), step), tmp_path / "parts")
    train_quietly(DrivingTrainer(config, UNUSED), tmp_path / "parts")
    for name in (WEIGHTS, "model.onnx", "metrics.json", f"{CHECKPOINTS}/step-00000005"):
        paths = [tmp_path / run / name for run in ("whole", "parts")]
        if paths[0].is_dir():
            assert load_checkpoint(paths[0]) == load_checkpoint(paths[1])
        else:
            assert paths[0].read_bytes() == paths[1].read_bytes(), name


@pytest.mark.slow
def test_a_frozen_vision_part_stays_and_is_looked_through_once(
    config: DrivingConfig, tmp_path: Path
) -> None:
    phase = Phase(2, 2, steps=6, rate=1e-2, reuse=3, kept=2, frozen_vision=True)
    config = replace(config, phases=(phase,))
    weights, features = seeded(TINY, 9), tmp_path / "features"

    def made() -> DrivingTrainer:
        return DrivingTrainer(config, features, weights)

    whole = train_quietly(made(), tmp_path / "whole")
    assert whole.evaluate().endswith("features of 2 batches made, 0 found")
    assert len(list(features.iterdir())) == 2
    trained = load(whole.results()[WEIGHTS])
    moved = {name for name in weights if (trained[name] != weights[name]).any()}
    assert moved == {name for name in weights if is_policy(name)}
    with pytest.raises(Stopped):
        train_quietly(stop_before(made(), 4), tmp_path / "parts")
    resumed = train_quietly(made(), tmp_path / "parts")
    assert resumed.evaluate().endswith("features of 0 batches made, 2 found")
    assert resumed.results() == whole.results()
    assert resumed.history == whole.history
    last = f"{CHECKPOINTS}/step-00000006"
    assert load_checkpoint(tmp_path / "whole" / last) == load_checkpoint(tmp_path / "parts" / last)


def test_a_run_can_begin_with_weights(config: DrivingConfig) -> None:
    weights = seeded(TINY, 9)
    trainer = DrivingTrainer(config, UNUSED, weights)
    assert load(trainer.results()[WEIGHTS]).keys() == weights.keys()
    assert all((load(trainer.results()[WEIGHTS])[n] == weights[n]).all() for n in weights)
    snapshot = trainer.snapshot()
    # The same command and one without the weights go on; one with others does not.
    for again in (weights, None):
        other = DrivingTrainer(config, UNUSED, again)
        other.resume(snapshot, History())
        assert other.snapshot() == snapshot
    with pytest.raises(ModeldError, match=r"--start-from is \w+ in the checkpoint, \w+ here"):
        DrivingTrainer(config, UNUSED, seeded(TINY, 8)).resume(snapshot, History())
    with pytest.raises(ModeldError, match="--start-from is None in the checkpoint"):
        DrivingTrainer(config, UNUSED, weights).resume(
            DrivingTrainer(config, UNUSED).snapshot(), History()
        )
    with pytest.raises(ModeldError, match="which tiny has not"):
        DrivingTrainer(config, UNUSED, weights | {"more": weights["feature.bias"]})


def test_a_phase_may_be_changed_until_it_begins(config: DrivingConfig, tmp_path: Path) -> None:
    trainer = DrivingTrainer(config, UNUSED)
    trainer.step = 3
    saved = load_checkpoint(CheckpointStore(tmp_path).save(trainer.snapshot()))
    first, second = config.phases
    later = replace(config, phases=(first, replace(second, steps=7, rate=0.1), second))
    resumed = DrivingTrainer(later, UNUSED)
    resumed.resume(saved, History())
    assert (resumed.step, resumed.steps) == (3, 12)
    for changed, message in (
        (replace(config, phases=(replace(first, sequences=2), second)), r"phases\[0\].sequences"),
        (replace(config, data=replace(config.data, seed=2)), "data.seed is 1 in the checkpoint, 2"),
        (
            replace(config, optimizer=replace(config.optimizer, weight_decay=0.0)),
            "wd of optimizer 0",
        ),
    ):
        with pytest.raises(ModeldError, match=message):
            DrivingTrainer(changed, UNUSED).resume(saved, History())
    trainer.step = 4
    with pytest.raises(ModeldError, match=r"phases\[1\].rate is 0.001 in the checkpoint, 0.1 here"):
        DrivingTrainer(later, UNUSED).resume(trainer.snapshot(), History())


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 9))
def test_kept_batches_come_as_often_as_they_should(reuse: int, kept: int, seed: int) -> None:
    phase = Phase(1, 1, steps=1, rate=0, reuse=reuse, kept=kept)
    blocks = 3
    numbers = [phase.batch_at(step, seed) for step in range(blocks * kept * reuse)]
    assert sorted(numbers) == sorted(list(range(blocks * kept)) * reuse)
    for block in range(blocks):
        # No batch is needed again once a later block has begun.
        part = numbers[block * kept * reuse : (block + 1) * kept * reuse]
        assert {number // kept for number in part} == {block}
        assert part[:kept] == list(range(block * kept, (block + 1) * kept))


def test_each_turn_has_an_order_of_its_own() -> None:
    phase = Phase(1, 1, steps=1, rate=0, reuse=3, kept=20)
    turns = [[phase.batch_at(20 * turn + i, 1) for i in range(20)] for turn in range(3)]
    assert turns[1] != turns[2] != turns[0]


@pytest.mark.parametrize(
    ("name", "shape", "factor"),
    [
        ("stage_1.block_1.depthwise.weight", (48, 1, 5, 5), 4),
        ("stem_wide.weight", (16, 12, 3, 3), 2),
        ("stage_4.block_1.expand.weight", (256, 256, 1, 1), 1),
        ("feature.weight", (2304, 512), 1 / 8),
        ("trunk.mix.weight", (256, 256), 1),
        ("feature.bias", (512,), 1),
        ("attention.position", (25, 256), 1),
    ],
)
def test_weights_with_many_inputs_move_less(
    name: str, shape: tuple[int, ...], factor: float
) -> None:
    assert rate_factor(name, shape) == factor


def test_phases_follow_one_another() -> None:
    phases = [(number, first) for number, _, first in map(CONFIG.phase_at, range(7))]
    assert phases == [(0, 0)] * 3 + [(1, 3)] * 4
    assert CONFIG.steps == 5


def test_weights_of_an_other_size_are_refused() -> None:
    content = save({"feature.bias": np.zeros(3, np.float32)})
    with pytest.raises(ModeldError, match="weights lack"):
        DrivingTrainer(CONFIG, UNUSED, load(content))
