"""Checkpoints on disk: whole, verified, the last few, never overwritten."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import training_cases as cases
from safetensors.numpy import load_file
from tinygrad import Tensor
from tinygrad.nn.optim import AdamW, OptimizerGroup
from tinygrad.nn.state import load_state_dict, safe_load

from compile.training import checkpoint
from compile.training.checkpoint import CheckpointStore, load
from compile.training.schedule import Schedule
from compile.training.snapshot import Snapshot, start, take
from modeld.errors import ModeldError


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    tensors = cases.parameters()
    Tensor.rand(2).realize()
    optimizer = OptimizerGroup(AdamW(list(tensors.values()), fused=False))
    start(tensors, optimizer)
    schedule = Schedule("linear", 1e-3, 20, 2)
    return take(tensors, optimizer, step=3, schedule=schedule, position={"epoch": 1, "at": [5]})


def at(snapshot: Snapshot, step: int) -> Snapshot:
    return replace(snapshot, record=replace(snapshot.record, step=step))


def test_what_is_saved_is_loaded(snapshot: Snapshot, tmp_path: Path) -> None:
    path = CheckpointStore(tmp_path / "run").save(snapshot)
    assert path.name == "step-00000003"
    assert load(path) == snapshot
    assert sorted(p.name for p in path.iterdir()) == [
        "manifest.json", "optimizer.safetensors", "parameters.safetensors",
    ]  # fmt: skip


def test_others_read_the_files(snapshot: Snapshot, tmp_path: Path) -> None:
    path = CheckpointStore(tmp_path).save(snapshot)
    expected = cases.values(cases.parameters())
    assert cases.same_bits(load_file(path / "parameters.safetensors"), expected)
    assert set(load_file(path / "optimizer.safetensors")) == {
        "0.m.weight", "0.m.bias", "0.v.weight", "0.v.bias",
    }  # fmt: skip
    model = cases.parameters(seed=8)
    load_state_dict(model, safe_load(path / "parameters.safetensors"), verbose=False)
    assert cases.same_bits(cases.values(model), expected)


def test_the_last_ones_stay(snapshot: Snapshot, tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    assert store.latest() is None
    for step in (9, 10, 123456789):
        store.save(at(snapshot, step))
    assert [path.name for path in store.paths()] == ["step-00000010", "step-123456789"]
    assert sorted(tmp_path.iterdir()) == store.paths()
    assert store.latest() == store.paths()[1]


def test_a_checkpoint_is_never_overwritten(snapshot: Snapshot, tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(snapshot)
    with pytest.raises(ModeldError, match="step-00000003 exists; checkpoints are never over"):
        store.save(snapshot)


def test_a_mapped_file_keeps_its_content(snapshot: Snapshot, tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    first = store.save(snapshot)
    # tinygrad reads a file when a tensor of it is computed, not when it is opened.
    lazy = safe_load(first / "parameters.safetensors")
    changed = {name: replace(t, data=bytes(len(t.data))) for name, t in snapshot.parameters.items()}
    store.save(replace(at(snapshot, 4), parameters=changed))
    assert not first.exists()
    assert bytes(lazy["weight"].to("CL").data()) == snapshot.parameters["weight"].data


def test_two_writers_do_not_meet(snapshot: Snapshot, tmp_path: Path) -> None:
    with (
        checkpoint.locked(tmp_path),
        pytest.raises(ModeldError, match="another process is writing"),
    ):
        CheckpointStore(tmp_path).save(snapshot)


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_disk_that_refuses_leaves_the_checkpoints_before(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    store = CheckpointStore(tmp_path)
    good = store.save(snapshot)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(*((os, call) if call == "fsync" else (Path, call)), refuse)
        with pytest.raises(ModeldError, match=r"cannot be written .No space left on device."):
            store.save(at(snapshot, 4))
    assert store.paths() == [good]
    assert load(good) == snapshot
    # What is left of the failed one is swept away by the next.
    store.save(at(snapshot, 4))
    assert sorted(tmp_path.iterdir()) == store.paths()


def test_a_deletion_that_was_killed_is_finished(snapshot: Snapshot, tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    store.save(snapshot).rename(tmp_path / ".old-step-00000003")
    assert store.latest() is None
    path = store.save(at(snapshot, 4))
    assert list(tmp_path.iterdir()) == [path]


def edit(path: Path, change: Callable[[dict], object], honest: bool) -> None:
    document = json.loads((path / "manifest.json").read_bytes())
    change(document)
    if honest:
        document["digest"] = checkpoint._digest(document)
    (path / "manifest.json").write_text(json.dumps(document))


def test_other_formats_are_refused_by_name(snapshot: Snapshot, tmp_path: Path) -> None:
    path = CheckpointStore(tmp_path).save(snapshot)
    for version in (0, 2):
        edit(path, lambda d, v=version: d.update(format_version=v), honest=True)
        with pytest.raises(ModeldError, match=f"has format version {version}, this program re"):
            load(path)
    edit(path, lambda d: d.update(format="other"), honest=True)
    with pytest.raises(ModeldError, match="is no checkpoint's manifest"):
        load(path)


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no directory": (lambda p: p.rename(p.with_name("gone")), "cannot be read .No such file"),
    "no JSON": (lambda p: (p / "manifest.json").write_text("{"), "is not JSON"),
    "a list": (lambda p: (p / "manifest.json").write_text("[]"), "is no checkpoint's manifest"),
    "edited": (lambda p: edit(p, lambda d: d.update(step=4), False), "was changed after"),
    "a flipped bit": (
        lambda p: flip(p / "optimizer.safetensors"),
        "optimizer.safetensors has sha256 .* the manifest says",
    ),
    "cut off": (
        lambda p: os.truncate(p / "parameters.safetensors", 100),
        "parameters.safetensors has sha256",
    ),
    "lacks a field": (
        lambda p: edit(p, lambda d: d.pop("grouped"), True),
        "manifest.json lacks grouped",
    ),
    "has a field more": (
        lambda p: edit(p, lambda d: d.update(extra=1), True),
        "manifest.json has unknown extra",
    ),
    "a wrong type": (
        lambda p: edit(p, lambda d: d["optimizers"][0].update(fused=1), True),
        r"manifest.json.optimizers\[0\].fused is 1; it must be of type bool",
    ),
    "names other tensors": (
        lambda p: edit(p, lambda d: d["optimizers"][0].update(slots=["m"]), True),
        "holds other tensors than its manifest names",
    ),
}


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_checkpoint_is_refused(snapshot: Snapshot, tmp_path: Path, fault: str) -> None:
    path = CheckpointStore(tmp_path).save(snapshot)
    damage, message = FAULTS[fault]
    damage(path)
    with pytest.raises(ModeldError, match=message):
        load(path)


def test_keeping_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match="keeping 0 checkpoints would keep none"):
        CheckpointStore(tmp_path, keep=0)
