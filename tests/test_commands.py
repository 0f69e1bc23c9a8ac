import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from toy_artifact import SIZE, WEIGHT, write_toy

from modeld.cli import main

X = np.arange(SIZE, dtype=np.float32)


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home-cache"))


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    (tmp_path / "pin").write_text(write_toy(tmp_path / "toy"))
    return tmp_path / "toy"


def test_check_says_what_it_found(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pin = (toy.parent / "pin").read_text()
    assert main(["check", str(toy), "--pin", pin]) == 0
    out = capsys.readouterr().out
    assert pin in out
    assert "verdict    ok" in out
    assert "equal bit for bit" in out
    assert "0 from cache, 1 compiled" in out
    assert "none given" not in out
    assert main(["check", str(toy)]) == 0
    out = capsys.readouterr().out
    assert "1 from cache, 0 compiled" in out
    assert "pin        none given: whether this is the artifact you mean, nothing says\n" in out


def test_exec_runs_once_from_given_state(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs, outputs = toy.parent / "in.safetensors", toy.parent / "out.safetensors"
    save_file({"x": X, "memory": X * 2}, inputs)
    assert main(["exec", str(toy), "--inputs", str(inputs), "--out", str(outputs)]) == 0
    found = load_file(outputs)
    np.testing.assert_array_equal(found["y"], WEIGHT * X + 2 * X)
    np.testing.assert_array_equal(found["next_memory"], 3 * X)
    assert "y float32[8]" in capsys.readouterr().out


def test_exec_has_inputs_of_its_own(toy: Path) -> None:
    outputs = toy.parent / "out.safetensors"
    assert main(["exec", str(toy), "--out", str(outputs)]) == 0
    x = load_file(toy / "reference.safetensors")["0/input/x"]
    np.testing.assert_array_equal(load_file(outputs)["y"], WEIGHT * x)


def test_compiling_that_takes_long_is_told(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compile_slowly(*_: object) -> dict[str, bytes]:
        time.sleep(0.5)
        return {}

    monkeypatch.setattr("modeld.commands.options._SILENCE_S", 0.05)
    monkeypatch.setattr("modeld.programs.compile_together", compile_slowly)
    command = ["exec", str(toy), "--out", str(toy.parent / "out.safetensors")]
    assert main(command) == 0
    assert capsys.readouterr().err == "modeld: compiling 1 program for this device\n"
    (toy.parent / "out.safetensors").unlink()
    assert main(command) == 0  # from the cache
    assert capsys.readouterr().err == ""


def test_bench_profile_names_kernels_and_nodes(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", str(toy), "--runs", "5", "--warmup", "1", "--profile"]) == 0
    out = capsys.readouterr().out
    assert "5 runs after 1 warm-ups" in out
    assert "turn  [Add_0]" in out


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.err.startswith("modeld: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize("command", ["check", "bench", "exec"])
def test_failures_are_one_line(toy: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    inputs, outputs = toy.parent / "in.safetensors", toy.parent / "out.safetensors"
    save_file({"x": X}, inputs)
    more = ["--inputs", str(inputs), "--out", str(outputs)] if command == "exec" else []
    assert main([command, str(toy), "--pin", "sha256:" + "0" * 64, *more]) == 1
    assert "wrong-pin" in one_line(capsys)
    assert main([command, str(toy.parent / "none"), *more]) == 1
    assert "none cannot be read" in one_line(capsys)
    assert main([command, str(toy), "--device", "Tegra", *more]) == 1
    assert "no OpenCL device matches 'Tegra'" in one_line(capsys)
    assert not outputs.exists()


def test_exec_names_bad_files(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs, outputs = toy.parent / "in.safetensors", toy.parent / "out.safetensors"
    command = ["exec", str(toy), "--inputs", str(inputs), "--out", str(outputs)]
    assert main(command) == 1
    assert "in.safetensors cannot be read" in one_line(capsys)
    inputs.write_bytes(b"not safetensors at all")
    assert main(command) == 1
    assert "no safetensors file" in one_line(capsys)
    save_file({"z": X}, inputs)
    assert main(command) == 1
    assert "inputs missing: x; unknown: z" in one_line(capsys)
    save_file({"x": X}, inputs)
    command[-1] = str(toy.parent / "no" / "where.safetensors")
    assert main(command) == 1
    assert "where.safetensors cannot be written" in one_line(capsys)


def test_bench_wants_something_to_time(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags in (["--runs", "0"], ["--warmup", "-1"]):
        assert main(["bench", str(toy), *flags]) == 1
        assert "leave nothing to time" in one_line(capsys)
