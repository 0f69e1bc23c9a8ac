"""Files that options of both commands write: one rule for what may be replaced."""

import os
from pathlib import Path

import pytest

from compile.cli import main as modeld_compile
from modeld.cli import main as modeld

# Nothing that these read is there, so that they end once they have looked where to write.
COMMANDS = {
    "exec": (modeld, "exec absent --out", "arrays.safetensors"),
    "log": (modeld, "replay road --artifact absent --out", "drive.zst"),
    "raw log": (modeld, "replay road --artifact absent --out", "drive"),
    "overlay": (modeld, "replay road --artifact absent --overlay", "drive.mp4"),
    "plots": (modeld, "compare absent absent --plots", "curves.svg"),
    "plot": (modeld, "rig --artifact absent --plot", "latency.png"),
    "csv": (modeld, "rig --artifact absent --csv", "latency.csv"),
    "trace": (modeld, "rig --artifact absent --trace", "latency.json"),
    "model": (modeld_compile, "reference --weights absent --out", "model.onnx"),
    "page": (modeld_compile, "inspect absent --html", "page.html"),
    "ranges": (modeld_compile, "build absent --out a --dtype float16 --range-report", "r.tsv"),
}
written = pytest.mark.parametrize("name", COMMANDS)


def refused(name: str, path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says of an output that it refuses: one line."""
    command, arguments, _ = COMMANDS[name]
    assert command([*arguments.split(), str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line.partition(" error: ")[2]


@written
def test_a_file_is_named_before_it_is_replaced(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, arguments, file = COMMANDS[name]
    path = tmp_path / f"mein Büro {file}"
    path.write_bytes(b"old")
    assert command([*arguments.split(), str(path)]) == 1
    told, *_, failed = capsys.readouterr().err.splitlines()
    assert told == f"replaces {path} at the end"
    assert "absent" in failed
    assert path.read_bytes() == b"old"


@written
def test_only_a_file_is_replaced(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ending = COMMANDS[name][2]
    (tmp_path / f"folder-{ending}").mkdir()
    os.mkfifo(tmp_path / f"pipe-{ending}")
    (tmp_path / f"link-{ending}").symlink_to("/dev/null")
    for kind, reason in (
        ("folder", "Is a directory); name a file"),
        ("pipe", "it is no regular file); name another file"),
        ("link", "it is no regular file); name another file"),
    ):
        path = tmp_path / f"{kind}-{ending}"
        assert refused(name, path, capsys) == f"{path} cannot be written ({reason}"


@written
def test_a_name_says_what_is_written(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "result.txt"
    told, _, endings = refused(name, path, capsys).partition("; give it ")
    assert told.startswith(f"{path} has no ending of a ")
    assert (Path(COMMANDS[name][2]).suffix or "none") in endings.split(" or ")


def test_a_device_is_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    for path in (Path("/dev/null"), Path("/dev/stdout")):
        before = path.lstat()
        assert refused("raw log", path, capsys) == (
            f"{path} cannot be written (it is no regular file); name another file"
        )
        assert path.lstat() == before
