"""The command itself: what goes wrong before its sub-commands is one line."""

import subprocess
import sys
from pathlib import Path

import pytest
from toy_artifact import write_toy

from modeld.cli import COMMANDS, main


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "the following arguments are required: COMMAND; see `modeld --help`"),
        (["fly"], "invalid choice: 'fly'"),
        (["bench"], "the following arguments are required: DIR; see `modeld bench --help`"),
        (["bench", "x", "--runs", "many"], "argument --runs: invalid int value: 'many'"),
        (["run", "--artifact", "x", "--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_what_cannot_be_understood_is_one_line(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("modeld: error: ")
    assert named in line


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_helps(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert COMMANDS[command] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("rich", "this needs the package rich; install it with `pip install 'modeld[replay]'`"),
        ("hdrh", "this needs the package hdrh; install it with `pip install 'modeld[replay]'`"),
        ("zmq", "the package zmq cannot be loaded (import of zmq halted; None in sys.modules)"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(module: str, line: str) -> None:
    program = f"import sys; sys.modules['{module}'] = None\nfrom modeld.cli import main\n"
    program += "sys.exit(main(['rig', '--artifact', 'x']))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"modeld: error: {line}")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_has_seen_enough_is_no_failure_of_ours(tmp_path: Path) -> None:
    write_toy(tmp_path / "toy")
    command = [sys.executable, "-m", "modeld", "check", str(tmp_path / "toy"), "--no-run"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr is not None
        assert process.stderr.read() == ""
