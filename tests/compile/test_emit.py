"""Writing the directory: whole or not at all, never over something else."""

import os
import stat
from pathlib import Path

import pytest
from toy_artifact import toy_files, toy_manifest

from compile.emit import check_target, kernel_path, staged, write_artifact
from modeld.artifact import open_artifact
from modeld.errors import ModeldError


def write_into(out: Path) -> None:
    files = toy_files()
    with staged(out) as directory:
        write_artifact(directory, toy_manifest(files), files)


def test_written_artifact_opens_and_verifies(tmp_path: Path) -> None:
    write_into(tmp_path / "toy")
    artifact = open_artifact(tmp_path / "toy")
    artifact.verify_files()
    assert stat.S_IMODE((tmp_path / "toy").stat().st_mode) == 0o755
    assert [p.name for p in tmp_path.iterdir()] == ["toy"]


def test_failure_leaves_nothing(tmp_path: Path) -> None:
    for failure in (ModeldError, KeyboardInterrupt):
        with pytest.raises(failure), staged(tmp_path / "toy") as directory:
            (directory / "part").write_text("half")
            raise failure
    assert list(tmp_path.iterdir()) == []


def test_failure_leaves_the_old_artifact(tmp_path: Path) -> None:
    write_into(tmp_path / "toy")
    before = open_artifact(tmp_path / "toy").digest
    with pytest.raises(ModeldError), staged(tmp_path / "toy"):
        raise ModeldError("no")
    assert open_artifact(tmp_path / "toy").digest == before
    assert [p.name for p in tmp_path.iterdir()] == ["toy"]


def test_artifact_is_replaced(tmp_path: Path) -> None:
    write_into(tmp_path / "toy")
    (tmp_path / "toy" / "left-over").write_text("of the old one")
    write_into(tmp_path / "toy")
    open_artifact(tmp_path / "toy").verify_files()
    assert [p.name for p in tmp_path.iterdir()] == ["toy"]


def test_other_things_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    for name, said in (
        ("file", "no directory"),
        ("folder", "holds no artifact"),
        ("link", "no directory"),
        ("missing/deep", "missing is no directory"),
    ):
        with pytest.raises(ModeldError, match=said):
            check_target(tmp_path / name)
    (tmp_path / "empty").mkdir()
    check_target(tmp_path / "empty")
    check_target(tmp_path / "new")


def test_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModeldError, match="No space left on device"):
        write_into(tmp_path / "toy")
    assert list(tmp_path.iterdir()) == []


def test_two_bodies_of_one_kernel_name_are_two_files() -> None:
    first, second = "__kernel void k() {}", "__kernel void k() { }"
    assert kernel_path(first) != kernel_path(second)
    assert kernel_path(first).startswith("kernels/") and kernel_path(first).endswith(".cl")
