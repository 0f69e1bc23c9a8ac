"""The systemd files: valid, tight where they must be, in step with the program."""

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from modeld.cli import parse
from modeld.config import Config, load_config
from modeld.realtime import RealtimeConfig

SYSTEMD = Path(__file__).parents[1] / "systemd"
UNIT = (SYSTEMD / "modeld.service").read_text()
BOARDS = sorted((SYSTEMD / "boards").glob("*.conf"))


def settings(key: str) -> list[str]:
    """All values of a key in the unit, continuation lines joined."""
    return re.findall(rf"^{key}=(.*)$", UNIT.replace("\\\n", " "), re.MULTILINE)


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that exists here, as verification demands."""
    path = tmp_path / "modeld.service"
    path.write_text(UNIT.replace("/opt/modeld/bin/modeld", sys.executable))
    return path


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tool("systemd-analyze"), *arguments], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("board", [None, *BOARDS], ids=lambda b: b.stem if b else "plain")
def test_verifies_clean(unit: Path, board: Path | None) -> None:
    if board is not None:
        folder = unit.with_name("modeld.service.d")
        folder.mkdir()
        shutil.copy(board, folder)
    found = analyze("verify", str(unit))
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_exposure_is_low(unit: Path) -> None:
    found = analyze("security", "--offline=yes", "--threshold=25", str(unit))
    assert found.returncode == 0, found.stdout


def test_ready_and_watchdog_come_from_the_daemon() -> None:
    assert settings("Type") == ["notify"]
    assert settings("NotifyAccess") == ["main"]
    assert settings("WatchdogSec") == ["10s"]
    assert settings("Restart") == ["always"]


def test_no_can_and_no_device_but_the_gpu() -> None:
    (families,) = settings("RestrictAddressFamilies")
    assert set(families.split()) == {"AF_UNIX", "AF_INET", "AF_INET6"}
    assert settings("DevicePolicy") == ["closed"]
    classes = {value.split()[0] for value in settings("DeviceAllow")}
    assert classes == {"char-drm", "char-kgsl", "char-dma_heap"}
    assert settings("CapabilityBoundingSet") == [""]


def test_artifact_is_read_only_and_kernels_may_be_compiled() -> None:
    assert settings("ReadOnlyPaths") == ["/var/lib/modeld"]
    assert settings("ProtectSystem") == ["strict"]
    assert settings("CacheDirectory") == ["modeld"]
    assert "PYOPENCL_NO_CACHE=1" in settings("Environment")
    assert settings("MemoryDenyWriteExecute") == []


def test_command_line_is_one_that_the_program_takes() -> None:
    (line,) = settings("ExecStart")
    program, *arguments = shlex.split(line)
    assert program.startswith("/")
    args = parse(arguments)
    assert args.command == "run"
    assert str(args.artifact).startswith(settings("ReadOnlyPaths")[0])
    assert args.pin_file is not None


@pytest.mark.parametrize("board", BOARDS, ids=lambda b: b.stem)
def test_boards_only_add_to_the_service(board: Path) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read_string(board.read_text())
    assert parser.sections() == ["Service"]
    assert set(parser["Service"]) <= {
        "deviceallow",
        "environment",
        "user",
        "group",
        "readwritepaths",
    }


def test_shipped_configuration_is_the_defaults(tmp_path: Path) -> None:
    assert load_config(SYSTEMD / "modeld.toml") == Config()
    text = (SYSTEMD / "modeld.toml").read_text()
    (tmp_path / "all.toml").write_text(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE))
    assert load_config(tmp_path / "all.toml").realtime == RealtimeConfig(54, (7,))


def test_user_and_folders(tmp_path: Path) -> None:
    found = subprocess.run(
        [tool("systemd-sysusers"), "--dry-run", str(SYSTEMD / "sysusers.conf")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 0, found.stderr
    assert settings("User") == ["modeld"]
    rules = (SYSTEMD / "tmpfiles.conf").read_text()
    made = {line.split()[1] for line in rules.splitlines() if line.startswith("d ")}
    assert made == {"/var/lib/modeld", "/etc/modeld"}
