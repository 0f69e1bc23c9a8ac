"""The command itself: what goes wrong before and around its sub-commands is one line."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from toy_artifact import write_toy

from modeld.cli import COMMANDS, main, run_guarded
from modeld.errors import ModeldError


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


def test_our_own_broken_import_is_a_traceback() -> None:
    def action() -> int:
        raise ImportError("cannot import name 'x' from 'modeld.y'", name="modeld.y")

    with pytest.raises(ImportError, match="cannot import name"):
        run_guarded("modeld", action)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_one_line(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(number)

    def action() -> int:
        os.kill(os.getpid(), number)
        return 0

    assert run_guarded("demo", action) == 128 + number
    assert capsys.readouterr().err == f"demo: stopped by {number.name}\n"
    assert signal.getsignal(number) is before


def test_a_signal_during_an_import_is_no_import_error(capsys: pytest.CaptureFixture[str]) -> None:
    def action() -> int:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt as stopped:
            raise ImportError("cannot load the extension", name="pyopencl") from stopped
        return 0

    assert run_guarded("modeld", action) == 130
    assert capsys.readouterr().err == "modeld: stopped by SIGINT\n"


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run_guarded("modeld", lambda: os.kill(os.getpid(), signal.SIGHUP) or 7) == 7
    finally:
        signal.signal(signal.SIGHUP, before)


def test_failures_keep_their_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    class OwnError(ModeldError):
        exit_code = 9

    def action() -> int:
        raise OwnError("the wheel is loose; fasten it")

    assert run_guarded("demo", action) == 9
    assert capsys.readouterr().err == "demo: error: the wheel is loose; fasten it\n"


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


PRINTING = """
import sys
from modeld.cli import run_guarded
from modeld.errors import ModeldError

def loose():
    print("a wheel")
    raise ModeldError("the wheel is loose; fasten it")

def other():
    raise OSError(28, "No space left on device")

actions = {
    "print": lambda: print("a wheel") or 0,
    "flush": lambda: print("a wheel", flush=True) or 0,
    "help": lambda: print("a wheel") or sys.exit(0),
    "loose": loose,
    "other": other,
}
sys.exit(run_guarded("demo", actions[sys.argv[1]]))
"""


def printing(action: str, to: str, *flags: str) -> tuple[int, str]:
    """Exit status and stderr of a command whose standard output the shell opens as `to` says."""
    command = ["sh", "-c", f'exec "$@" {to}', "sh", sys.executable, *flags, "-c", PRINTING, action]
    env = os.environ | {"PYTHONUNBUFFERED": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    return done.returncode, done.stderr


@pytest.mark.parametrize("action", ["print", "flush", "help"])
@pytest.mark.parametrize("flags", [[], ["-u"]])
def test_output_that_cannot_be_written_is_one_line(action: str, flags: list[str]) -> None:
    line = "demo: error: standard output cannot be written (No space left on device); make room, "
    status, told = printing(action, "> /dev/full", *flags)
    assert status == 1
    assert told.startswith(line)
    assert told.count("\n") == 1


def test_output_that_is_closed_is_one_line() -> None:
    line = "demo: error: standard output is closed; give one, e.g. /dev/null\n"
    assert printing("print", ">&-") == (1, line)


def test_output_that_cannot_be_written_hides_no_failure() -> None:
    line = "demo: error: the wheel is loose; fasten it\n"
    assert printing("loose", "> /dev/full") == (1, line)


def test_other_failures_of_the_system_are_not_blamed_on_output() -> None:
    status, told = printing("other", "> /dev/null")
    assert status == 1
    assert "Traceback" in told
