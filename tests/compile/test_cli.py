"""The command from outside: every failure one clear line, nothing half-written."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from onnx_models import conv_model, driving_model
from safetensors.numpy import save_file

from compile.cli import main
from compile.progress import StderrProgress
from modeld.artifact import open_artifact


def test_build_prints_the_identity_and_shows_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = conv_model(tmp_path / "m.onnx", batch="n")
    assert main(["build", str(model), "--out", str(tmp_path / "a"), "--dim", "n=1"]) == 0
    captured = capsys.readouterr()
    assert captured.out == open_artifact(tmp_path / "a").digest + "\n"
    assert "[1/7] reading the model" in captured.err and "built in" in captured.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "symbolic dimensions without a value: n (of x); give --dim n=N"),
        (["--dim", "n=1", "--dim", "m=2"], "--dim m=2: no input has a dimension so named"),
        (["--dim", "n=1", "--camera", "640x480"], "the model has no input new_img"),
        (["--dim", "n=1", "--device", "no such platform"], "no OpenCL device matches"),
        (
            ["--dim", "n=1", "--const", "y=missing"],
            "missing cannot be read (No such file or directory); check the name",
        ),
        (
            ["--dim", "n=1", "--const", "x=folder"],
            "folder cannot be read (Is a directory); name a file",
        ),
        (["--dim", "n=1", "--reference-inputs", "m.onnx"], "m.onnx is not a safetensors file"),
        (["--dim", "n=1", "--const", "z=one.safetensors"], "--const: the model has no input z"),
        (["--dim", "n=1", "--const", "x=two.safetensors"], "holds a, b, wanted x"),
    ],
)
def test_failures_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    conv_model(tmp_path / "m.onnx", batch="n")
    (tmp_path / "folder").mkdir()
    save_file({"a": np.zeros(1, np.float32)}, "one.safetensors")
    save_file({"a": np.zeros(1), "b": np.zeros(1)}, "two.safetensors")
    before = sorted(tmp_path.iterdir())
    assert main(["build", "m.onnx", "--out", "a", *options]) == 1
    error = capsys.readouterr().err
    (line,) = [line for line in error.splitlines() if not line.startswith("[")]
    assert line.startswith("modeld-compile: error: ") and said in line
    assert "Traceback" not in error
    assert sorted(tmp_path.iterdir()) == before


def test_broken_metadata_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = driving_model(tmp_path / "m.onnx", metadata={"output_slices": "####"})
    assert main(["build", str(model), "--out", str(tmp_path / "a")]) == 1
    assert "output_slices is not base64" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["build", "m.onnx"],
        ["build", "m.onnx", "--out", "a", "--camera", "1927x1208"],
        ["build", "m.onnx", "--out", "a", "--camera", "big"],
        ["build", "m.onnx", "--out", "a", "--dim", "batch"],
        ["build", "m.onnx", "--out", "a", "--dim", "batch=0"],
        ["build", "m.onnx", "--out", "a", "--const", "x"],
        ["frobnicate"],
        [],
    ],
)
def test_wrong_flags(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("modeld-compile: error: ") and "see `modeld-compile" in line


def test_reference_is_written_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reference", "--out", str(tmp_path / "r.onnx")]) == 0
    assert (tmp_path / "r.onnx").stat().st_size > 1_000_000
    assert main(["reference", "--out", str(tmp_path / "no" / "r.onnx")]) == 1
    assert "cannot be written (No such file or directory)" in capsys.readouterr().err
    (tmp_path / "link.onnx").symlink_to("r.onnx")
    assert main(["reference", "--out", str(tmp_path / "link.onnx")]) == 1
    assert "link.onnx cannot be written (it is no regular file)" in capsys.readouterr().err


def test_sign_and_keygen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["--private", str(tmp_path / "k.pem"), "--public", str(tmp_path / "k.pub")]
    (tmp_path / "password").write_text("secret\n")
    password = ["--password-file", str(tmp_path / "password")]
    assert main(["keygen", *keys, *password]) == 0
    key_id = capsys.readouterr().out
    assert main(["keygen", *keys]) == 1
    assert "keys are not overwritten" in capsys.readouterr().err
    model = conv_model(tmp_path / "m.onnx")
    main(["build", str(model), "--out", str(tmp_path / "a")])
    capsys.readouterr()
    assert main(["sign", str(tmp_path / "a"), "--key", str(tmp_path / "k.pem"), *password]) == 0
    assert capsys.readouterr().out == key_id
    assert (tmp_path / "a" / "manifest.sig").is_file()


def test_a_replaced_artifact_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "a")]
    model = str(conv_model(tmp_path / "m.onnx"))
    assert main(["build", model, *out]) == 0
    first = capsys.readouterr()
    assert "replaced" not in first.err
    assert main(["build", model, *out]) == 0
    assert "replaced" not in capsys.readouterr().err
    assert main(["build", model, *out, "--name", "other"]) == 0
    other = capsys.readouterr()
    assert other.err.splitlines()[-1] == f"replaced {first.out.strip()}"
    assert other.out != first.out


@pytest.mark.parametrize("content", ["secret", "secret\n", "secret\r\nmore\r\n"])
def test_the_first_line_is_the_password(tmp_path: Path, content: str) -> None:
    password, private, public = (tmp_path / name for name in ("password", "k.pem", "k.pub"))
    password.write_bytes(content.encode())
    keys = ["--private", str(private), "--public", str(public)]
    assert main(["keygen", *keys, "--password-file", str(password)]) == 0
    load_pem_private_key(private.read_bytes(), b"secret")


def test_keys_that_cannot_be_written_leave_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    public = tmp_path / "absent" / "k.pub"
    assert main(["keygen", "--private", str(tmp_path / "k.pem"), "--public", str(public)]) == 1
    assert f"error: {public} cannot be written (No such file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no text in its first line; write the password there"),
        (b"\nsecret\n", "has no text in its first line; write the password there"),
        (b"\xff", "has no text in its first line; write the password there"),
        (b"\0" * (1 << 21), "has 2097152 bytes, expected at most 1048576"),
    ],
)
def test_what_is_no_password_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    (tmp_path / "password").write_bytes(content)
    keys = ["--private", str(tmp_path / "k.pem"), "--public", str(tmp_path / "k.pub")]
    assert main(["keygen", *keys, "--password-file", str(tmp_path / "password")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"modeld-compile: error: {tmp_path / 'password'} {said}")
    assert [path.name for path in tmp_path.iterdir()] == ["password"]


def test_keys_that_open_nothing_say_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret, plain = tmp_path / "secret.pem", tmp_path / "plain.pem"
    password = tmp_path / "password"
    password.write_text("secret\n")
    given = ["--password-file", str(password)]
    main(["keygen", "--private", str(secret), "--public", str(tmp_path / "s.pub"), *given])
    main(["keygen", "--private", str(plain), "--public", str(tmp_path / "p.pub")])
    empty, text, image = (tmp_path / name for name in ("empty.pem", "text.pem", "image.pem"))
    empty.touch()
    text.write_text("no key")
    image.write_bytes(b"\x89PNG")
    capsys.readouterr()
    for key, options, said in (
        (empty, [], "holds no private key in PEM form; name the file that keygen --private wrote"),
        (text, [], "holds no private key in PEM form"),
        (image, [], "holds no private key in PEM form"),
        (Path("/dev/zero"), [], "has more than 1048576 bytes, expected at most 1048576; name an"),
        (secret, [], "is encrypted; give its --password-file"),
        (plain, given, "is not encrypted; leave --password-file out"),
        (tmp_path, [], "cannot be read (Is a directory); name a file"),
        (tmp_path / "gone.pem", [], "cannot be read (No such file or directory); check the name"),
    ):
        assert main(["sign", str(tmp_path), "--key", str(key), *options]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"modeld-compile: error: {key} {said}")


@pytest.mark.parametrize("arguments", ["--help", "build --help", "coverage m.onnx"])
def test_output_that_cannot_be_written_is_one_line(tmp_path: Path, arguments: str) -> None:
    conv_model(tmp_path / "m.onnx")
    result = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m compile {arguments} > /dev/full"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.returncode, result.stderr) == (
        1,
        "modeld-compile: error: standard output cannot be written (No space left on device); make "
        "room, or name a place on another disk\n",
    )


def test_lack_of_memory_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 37.3 GiB")

    monkeypatch.setattr("compile.build.random_inputs", fail)
    model = conv_model(tmp_path / "m.onnx")
    assert main(["build", str(model), "--out", str(tmp_path / "a")]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("modeld-compile: error: out of memory (Unable to allocate 37.3 GiB); ")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    conv_model(tmp_path / "m.onnx")
    process = subprocess.Popen(
        [sys.executable, "-m", "compile", "build", "m.onnx", "--out", "a"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    shown = ""
    while "[2/" not in shown:
        shown += process.stderr.read(1)
    process.send_signal(number)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert rest.splitlines()[-1] == f"modeld-compile: stopped by {number.name}"
    assert "Traceback" not in rest
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_a_missing_package_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "compile.coverage", raising=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["coverage", "m.onnx"]) == 1
    assert capsys.readouterr().err == (
        "modeld-compile: error: this needs the package onnx; "
        "install it with `pip install 'modeld[compile]'`\n"
    )


def test_progress_tells_stage_and_time() -> None:
    now = iter([0.0, 0.0, 1.5, 1.5, 1.5, 4.0]).__next__
    stream = io.StringIO()
    progress = StderrProgress(2, stream, now)
    progress.stage("first")
    progress.stage("second")
    progress.note("a detail")
    progress.failed()
    assert stream.getvalue() == "[1/2] first 1.5 s\n[2/2] second (a detail) failed\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_estimates_the_rest_on_a_terminal() -> None:
    now = iter([0.0, 0.0, 0.0, 2.0]).__next__
    stream = Terminal()
    progress = StderrProgress(1, stream, now)
    progress.stage("kernels")
    progress.advance(0, 40)
    progress.advance(8, 40)
    lines = stream.getvalue().split("\r\x1b[K")
    assert lines == [
        "[1/1] kernels ",
        "[1/1] kernels 0 of 40 ",
        "[1/1] kernels 8 of 40, about 8 s left ",
    ]


def test_time_is_monotonic() -> None:
    stream = io.StringIO()
    progress = StderrProgress(1, stream, time.monotonic)
    progress.stage("only")
    progress.done()
    assert stream.getvalue().startswith("[1/1] only 0.0 s\nbuilt in 0.0 s")
