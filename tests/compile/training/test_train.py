"""`modeld-compile train`: killed and started again it makes the same run."""

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from compile.cli import main
from compile.training.checkpoint import load, locked
from compile.training.config import DigitsConfig, make_optimizer, read_config
from compile.training.digits_trainer import DigitsTrainer
from compile.training.display import TrainingDisplay
from compile.training.history import History
from compile.training.loop import CHECKPOINTS, train
from compile.training.plots import Panel, plot_run
from modeld.errors import ModeldError

ROOT = Path(__file__).parents[3]
PHASE = "task = 'driving'\n[[phases]]\nsequences = 1\nsteps_each = 1\nrate = 0.001\n"
CONFIG = """
[network]
hidden = 8
dropout = 0.25
[data]
train = 40
test = 20
batch = 16
[optimizer]
kind = "AdamW"
rate = 0.01
weight_decay = 0.1
[schedule]
shape = "cosine"
[run]
steps = 9
save_every = 3
evaluate_every = 4
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(CONFIG)
    return path


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.suffix != ".png"
    }


def train_quietly(config: DigitsConfig, out: Path) -> None:
    display = TrainingDisplay(Console(file=io.StringIO()))
    train(lambda: DigitsTrainer(config), config.run, out, display)


def test_a_killed_run_goes_on_to_the_same_bits(config: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "compile", "train", "--config", str(config)]
    options = {"cwd": ROOT, "text": True, "stderr": subprocess.PIPE}
    killed = [*command, "--out", str(tmp_path / "killed")]
    with subprocess.Popen(killed, **options) as process:  # type: ignore[call-overload]
        for line in process.stderr:
            if line == "saved step-00000003\n":
                os.kill(process.pid, signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    # It may have saved once more before the signal arrived, but it did not come to its end.
    assert not (tmp_path / "killed" / "model.onnx").exists()

    done = subprocess.run(killed, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    assert "training goes on after step " in done.stderr

    train_quietly(read_config(config), tmp_path / "whole")
    whole, resumed = files(tmp_path / "whole"), files(tmp_path / "killed")
    assert whole.keys() == resumed.keys()
    assert len(json.loads(whole["metrics.json"])["loss"]) == 9
    assert [name for name in whole if whole[name] != resumed[name]] == []
    assert (tmp_path / "killed" / "training.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[DigitsConfig, Path]:
    """A finished run of a few steps."""
    directory = tmp_path_factory.mktemp("trained")
    (directory / "small.toml").write_text(CONFIG)
    settings = read_config(directory / "small.toml")
    settings = replace(settings, run=replace(settings.run, steps=3))
    train_quietly(settings, directory / "run")
    return settings, directory / "run"


def test_other_configurations_are_refused_by_both_sides(trained: tuple[DigitsConfig, Path]) -> None:
    settings, out = trained
    (path,) = (out / CHECKPOINTS).iterdir()
    for changed, message in (
        (
            replace(settings, data=replace(settings.data, batch=8)),
            "data.batch is 16 in the checkpoint, 8 here",
        ),
        (
            replace(settings, network=replace(settings.network, dropout=0.5)),
            "network.dropout is 0.25 in the checkpoint, 0.5 here",
        ),
        (
            replace(settings, optimizer=replace(settings.optimizer, weight_decay=0.2)),
            "wd of the optimizer is 0.1 in the checkpoint, 0.2 here",
        ),
        (
            replace(settings, run=replace(settings.run, steps=4)),
            "the schedule is cosine at 0.01 over 3 steps in the checkpoint, cosine at 0.01 over 4 ",
        ),
    ):
        with pytest.raises(ModeldError, match=message):
            DigitsTrainer(changed).resume(load(path), History())


def test_one_run_at_a_time_in_a_directory(trained: tuple[DigitsConfig, Path]) -> None:
    settings, out = trained
    with locked(out), pytest.raises(ModeldError, match="another process is writing to"):
        train_quietly(settings, out)


def test_missing_metrics_are_named(trained: tuple[DigitsConfig, Path]) -> None:
    settings, out = trained
    (out / "metrics.json").rename(out / "moved.json")
    with pytest.raises(ModeldError, match=r"metrics\.json cannot be read"):
        train_quietly(settings, out)
    (out / "moved.json").rename(out / "metrics.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[network]\nhidden = 0", "network.hidden is 0; use 1 or more"),
        ("[network]\nhidden = 1.5", "network.hidden is 1.5; it must be of type int"),
        ("[network]\ndepth = 2", "network has unknown depth; known are dropout, hidden"),
        ("[optimizer]\nkind = 'Adagrad'", "optimizer.kind is 'Adagrad'; use one of SGD, LARS"),
        ("network = 3", "network is 3; it must be a table of fields"),
        ("[run", "is not TOML"),
        ("task = 'chess'", "task is 'chess'; use digits or driving"),
        ("task = 'driving'", "lacks phases"),
        ("task = 'driving'\nphases = []", "phases are none; add a [[phases]] table"),
        (f"{PHASE}steps = 0", "phases[0].steps is 0; use 1 or more"),
        (f"{PHASE}steps = 1".replace("0.001", "-1"), "learning rate -1.0 is no rate"),
        (f"{PHASE}steps = 1\n[network]\nsize = 'huge'", "network.size is 'huge'; use one of small"),
        (f"{PHASE}steps = 1\n[optimizer]\nclip = 0", "optimizer.clip is 0.0; use a number above 0"),
    ],
)
def test_wrong_files_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    assert main(["train", "--config", str(path), "--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("modeld-compile: error: ") and message in error
    assert error.count("\n") == 1 and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        ({"rate": -1.0}, "optimizer: Invalid learning rate: -1.0"),
        ({"kind": "SGD", "momentum": -0.5}, "optimizer: Invalid momentum value: -0.5"),
        ({"kind": "Muon", "fused": True}, "optimizer: FUSE_OPTIM not allowed for Muon"),
    ],
)
def test_wrong_optimizers_are_refused(optimizer: dict, message: str) -> None:
    from tinygrad import Tensor

    config = replace(DigitsConfig().optimizer, **optimizer)
    with pytest.raises(ModeldError, match=message):
        make_optimizer(config, [Tensor.ones(2, 2)])


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        (0, "before the first checkpoint; the same command begins again"),
        (4, "with {out}/checkpoints/step-00000003 kept; the same command goes on from there"),
    ],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_what_is_kept_and_how_to_go_on(
    number: signal.Signals,
    steps: int,
    kept: str,
    config: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    taken = DigitsTrainer.train_step

    def stop_after_steps(trainer: DigitsTrainer) -> float:
        if trainer.step == steps:
            os.kill(os.getpid(), number)
        return taken(trainer)

    monkeypatch.setattr(DigitsTrainer, "train_step", stop_after_steps)
    out = tmp_path / "run"
    assert main(["train", "--config", str(config), "--out", str(out)]) == 128 + number
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"modeld-compile: stopped by {number.name} {kept.format(out=out)}"


def test_where_nothing_can_be_written_is_found_out_at_once(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "run" / "metrics.json").mkdir(parents=True)
    (tmp_path / "report" / "errors.png").mkdir(parents=True)
    for arguments, place in (
        (["train", "--config", str(config), "--out", "file"], "file cannot be written (File e"),
        (["train", "--config", str(config), "--out", "run"], "run/metrics.json cannot be written"),
        (["evaluate", "--out", "file/x"], "file/x cannot be written (Not a directory); check the"),
        (["evaluate", "--out", "report"], "report/errors.png cannot be written (Is a directory)"),
    ):
        arguments[-1] = str(tmp_path / arguments[-1])
        assert main(arguments) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"modeld-compile: error: {tmp_path}/{place}")


def test_history_beyond_the_checkpoint_is_cut_off() -> None:
    history = History({"loss": [0.5, 0.25, 0.125]}, {"accuracy": {1: 0.1, 3: 0.3}})
    kept = History({"loss": [0.5, 0.25]}, {"accuracy": {1: 0.1}})
    assert History.from_json(history.to_json(), 2) == kept


def test_a_terminal_gets_a_bar_and_a_file_gets_lines() -> None:
    shown = {}
    for terminal in (True, False):
        stream = io.StringIO()
        display = TrainingDisplay(Console(file=stream, force_terminal=terminal, width=100))
        with display:
            display.begun(0, 4, "a device")
            for step in range(1, 5):
                display.stepped(step, 1 / step)
            display.evaluated(4, "accuracy 50.0%")
            display.saved(Path("run/step-00000004"))
        shown[terminal] = stream.getvalue()
    assert "4/4\x1b[0m loss 0.250 accuracy 50.0%" in shown[True]
    assert shown[False].splitlines() == [
        "training starts of 4 on a device",
        "step 4: loss 0.250, accuracy 50.0%",
        "saved step-00000004",
    ]


def test_a_plot_of_little_is_still_a_plot(tmp_path: Path) -> None:
    panels = (Panel.of_steps("Loss", "nat", [1.0]), Panel("Accuracy", "%", [], []))
    plot_run(panels, "one step", tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
