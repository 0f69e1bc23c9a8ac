"""`modeld rig` from the outside, on a tiny artifact and the real daemon process."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from toy_driver import write_driver

from modeld.cli import main
from modeld.commands.rig import parse_duration
from modeld.errors import ModeldError
from modeld.messaging import ZmqTransport


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rig") / "driver"
    path.mkdir()
    write_driver(path, 1344, 760)
    return path


def address() -> str:
    """Ports are fixed, so each run takes a loopback address of its own."""
    return f"127.{os.getpid() % 250 + 1}.{random.randrange(250)}.{random.randrange(1, 250)}"


def flags(artifact: Path, tmp_path: Path, *more: str) -> list[str]:
    cache = str(tmp_path / "cache")
    return ["rig", "--artifact", str(artifact), "--bind", address(), "--cache", cache, *more]


def test_a_run_is_measured_judged_and_exported(
    artifact: Path,
    tmp_path: Path,
    clip: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    budget = tmp_path / "budget.toml"
    budget.write_text("[latency_ms.end_to_end]\np50 = 0.001\n[frames]\ninvalid = 0\n")
    endings = {"plot": "png", "csv": "csv", "trace": "json"}
    names = {flag: tmp_path / f"latency.{ending}" for flag, ending in endings.items()}
    files = [part for flag, path in names.items() for part in (f"--{flag}", str(path))]
    source = f"loop:{clip([40, 60, 80])}"
    status = main(
        flags(artifact, tmp_path, "--source", source, "--duration", "2s", "--budget", str(budget))
        + files
    )
    out, err = capsys.readouterr()
    assert status == 1, err
    (line,) = out.splitlines()
    assert line.startswith("RESULT ")
    result = json.loads(line.removeprefix("RESULT "))
    assert result["verdict"] == "fail"
    (violation,) = result["violations"]
    assert violation.startswith("latency_ms.end_to_end.p50 is ")
    assert result["frames"]["invalid"] == 0
    assert result["frames"]["heard"] > 10
    # One camera is looked at twice; every look is counted, none of the warm-up's.
    assert sum(result["pictures"].values()) == 2 * result["frames"]["answered"]
    assert "used in place" in err
    assert "end of frame to here" in err  # no column is cut off without a terminal
    assert result["artifact"].startswith("sha256:")
    assert 0 < result["startup"]["first_message_s"] < 60
    assert set(result["latency_ms"]) >= {"end_to_end", "turn", "overhead", "model", "warp"}
    assert names["plot"].read_bytes().startswith(b"\x89PNG")
    assert names["csv"].read_text().startswith("frame_id,")
    assert json.loads(names["trace"].read_text())["traceEvents"]


def test_a_run_that_is_stopped_reports_what_it_has(
    artifact: Path, tmp_path: Path, clip: Callable[..., Path]
) -> None:
    more = ("--duration", "8h", "--source", f"loop:{clip([40, 60, 80])}")
    command = [sys.executable, "-m", "modeld", *flags(artifact, tmp_path, *more)]
    where = command[command.index("--bind") + 1]
    frames = tmp_path / "frames.csv"
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, "--csv", str(frames)], stdout=pipe, stderr=pipe) as process:
        with ZmqTransport(connect=where) as transport:
            inbox = transport.inbox(["modelV2"], conflate=False)
            for _ in range(40):
                assert inbox.wait(60)
                inbox.receive("modelV2")
        process.send_signal(signal.SIGINT)
        out, told = (text.decode() for text in process.communicate(timeout=60))
    assert process.returncode == 128 + signal.SIGINT
    assert re.fullmatch(r"modeld: stopped by SIGINT after \d+ of 28800 s", told.splitlines()[-1])
    result = json.loads(out.splitlines()[-1].removeprefix("RESULT "))
    assert result["frames"]["heard"] > 10
    assert frames.read_text().count("\n") > 1


def failure(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    assert main(arguments) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert line.startswith("modeld: error: ")
    return line


def test_a_daemon_that_cannot_run_is_told_by_its_own_words(
    artifact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags(artifact, tmp_path, "--camera", "1928x1208")) == 1
    (line,) = capsys.readouterr().err.splitlines()  # no empty one where the bar was
    assert line.startswith("modeld: error: ")
    assert "not built for camera 1928x1208" in line


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--duration", "soon"), "--duration soon is no time"),
        (("--rate", "0"), "--rate 0.0 or --deadline 50.0 is out of range"),
        (("--budget", "absent.toml"), "absent.toml cannot be read"),
        (("--config", "absent.toml"), "configuration absent.toml cannot be read"),
        (("--plot", "run.foo"), "run.foo has no ending of a picture; give it .png or .svg"),
        (("--plot", "run"), "run has no ending of a picture"),
        (("--plot", "/absent/a.png"), "/absent/a.png cannot be written"),
        (("--csv", "/absent/a.csv"), "/absent/a.csv cannot be written"),
        (("--trace", "/absent/a.json"), "/absent/a.json cannot be written"),
    ],
)
def test_wrong_flags_are_named_before_anything_starts(
    artifact: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    named: str,
) -> None:
    assert named in failure(capsys, flags(artifact, tmp_path, *more))


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("60s", 60), ("1.5m", 90), ("8h", 28_800)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-5s", "5d", "m", "5 m", "nan"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ModeldError, match="is no time"):
        parse_duration(text)
