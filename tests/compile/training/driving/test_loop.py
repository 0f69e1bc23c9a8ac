"""Training steps, saving and resuming, on a network as small as the topology allows."""

import json
from pathlib import Path

import numpy as np
import pytest

from compile.reference.topology import TOPOLOGIES, Topology
from compile.training.driving.checkpoint import STATE, WEIGHTS, resume_run, save_run, start_run
from compile.training.driving.data import make_batch
from compile.training.driving.loop import Config
from modeld.errors import ModeldError

TINY = Topology("tiny", 4, (8, 8, 8, 8), (0, 1, 0, 0), (2, 2), 16, 2, 16)
CONFIG = Config(size="tiny", sequences=1, steps_each=2, steps=100)


@pytest.mark.slow  # some 380 kernels are compiled
def test_resuming_continues_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TOPOLOGIES, "tiny", TINY)
    run = start_run(CONFIG)
    batches = [make_batch(0, number, 1, 2) for number in range(4)]
    losses = [run.train_batch(batch).numpy() for batch in batches[:3]]
    assert np.isfinite(losses).all()
    save_run(tmp_path, run)
    run.train_batch(batches[3])
    resumed = resume_run(tmp_path, CONFIG)
    assert resumed.step_number == 3
    resumed.train_batch(batches[3])
    for name, weight in run.weights.items():
        assert np.array_equal(weight.numpy(), resumed.weights[name].numpy()), name

    with pytest.raises(ModeldError, match=r"rate=0.001, not 0.5"):
        resume_run(tmp_path, Config(size="tiny", sequences=1, steps_each=2, steps=100, rate=0.5))
    content = bytearray((tmp_path / WEIGHTS).read_bytes())
    content[-1] ^= 1
    (tmp_path / WEIGHTS).write_bytes(content)
    with pytest.raises(ModeldError, match="different moments"):
        resume_run(tmp_path, CONFIG)


def test_an_unknown_size_is_named() -> None:
    with pytest.raises(ModeldError, match="'huge'"):
        start_run(Config(size="huge"))


def test_a_run_that_is_not_there_or_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match="cannot resume"):
        resume_run(tmp_path, CONFIG)
    (tmp_path / STATE).write_text(json.dumps({"step": "three", "config": {}}))
    with pytest.raises(ModeldError, match="wrong type"):
        resume_run(tmp_path, CONFIG)
