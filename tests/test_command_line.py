"""How commands end: what users can cause or cure is one line, and a status that is not 0."""

import os
import signal
import subprocess
import sys
import time

import pytest

from modeld.command_line import run_guarded
from modeld.errors import ModeldError


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


def test_a_signal_in_a_destructor_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    class Dying:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    def action() -> int:
        Dying()
        time.sleep(10)
        return 0

    before = sys.unraisablehook
    assert run_guarded("demo", action) == 128 + signal.SIGTERM
    assert capsys.readouterr().err == "demo: stopped by SIGTERM\n"
    assert sys.unraisablehook is before


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


def test_lack_of_memory_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def action() -> int:
        raise MemoryError("Unable to allocate 37.3 GiB")

    assert run_guarded("demo", action) == 1
    assert capsys.readouterr().err == (
        "demo: error: out of memory (Unable to allocate 37.3 GiB); free some, or take a smaller "
        "model\n"
    )


IMPORTING = """
import os, runpy, signal, sys

class Interrupting:
    def find_spec(name, path=None, target=None):
        if name == sys.argv[2]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting)
runpy.run_module(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("package", "imported"),
    [("modeld", "modeld.cli"), ("compile", "compile.cli"), ("compile", "modeld.environment")],
)
def test_an_interrupt_at_the_first_imports_is_no_traceback(package: str, imported: str) -> None:
    command = [sys.executable, "-c", IMPORTING, package, imported]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


PRINTING = """
import sys
from modeld.command_line import Parser, run_guarded
from modeld.errors import ModeldError

def loose():
    print("a wheel")
    raise ModeldError("the wheel is loose; fasten it")

def other():
    raise OSError(28, "No space left on device")

actions = {
    "print": lambda: print("a wheel") or 0,
    "flush": lambda: print("a wheel", flush=True) or 0,
    "help": lambda: Parser("demo").parse_args(["--help"]),
    "loose": loose,
    "other": other,
}
sys.exit(run_guarded("demo", actions[sys.argv[1]]))
"""


def printing(action: str, to: str, *flags: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command whose outputs the shell opens as `to` says."""
    command = ["sh", "-c", f'exec "$@" {to}', "sh", sys.executable, *flags, "-c", PRINTING, action]
    env = os.environ | {"PYTHONUNBUFFERED": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("action", ["print", "flush", "help"])
@pytest.mark.parametrize("flags", [[], ["-u"]])
def test_output_that_cannot_be_written_is_one_line(action: str, flags: list[str]) -> None:
    line = "demo: error: standard output cannot be written (No space left on device); make room, "
    status, _, told = printing(action, "> /dev/full", *flags)
    assert status == 1
    assert told.startswith(line)
    assert told.count("\n") == 1


def test_output_that_is_closed_is_one_line() -> None:
    line = "demo: error: standard output is closed; open it, or send it to /dev/null\n"
    assert printing("print", ">&-") == (1, "", line)


@pytest.mark.parametrize(("action", "status"), [("print", 0), ("loose", 1)])
def test_closed_errors_change_nothing(action: str, status: int) -> None:
    assert printing(action, "2>&-") == (status, "a wheel\n", "")


def test_output_that_cannot_be_written_hides_no_failure() -> None:
    line = "demo: error: the wheel is loose; fasten it\n"
    assert printing("loose", "> /dev/full") == (1, "", line)


def test_other_failures_of_the_system_are_not_blamed_on_output() -> None:
    status, _, told = printing("other", "> /dev/null")
    assert status == 1
    assert "Traceback" in told
