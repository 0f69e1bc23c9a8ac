"""The command `modeld`: one sub-command a file in `modeld/commands`."""

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

from modeld.commands.signals import StoppedError, raising_on_signals
from modeld.errors import ModeldError
from modeld.files import cannot_write

# name -> the line shown by --help; modules are imported only when they are asked for, so that a
# device without the tools' packages runs the daemon.
COMMANDS = {
    "run": "turn camera frames into modelV2 messages",
    "check": "verify an artifact and say whether it can run here",
    "exec": "run the model once on arrays from a file",
    "bench": "time an artifact, stage by stage and kernel by kernel",
    "replay": "run the daemon on a recorded or simulated drive",
    "compare": "compare two logs of model messages",
    "rig": "measure the latency budget",
}

# Module -> the extra that has its package; all others that can be missing are replay's.
_EXTRAS = {"cryptography": "sign"}
_REQUIRED = ("numpy", "pyopencl", "zmq", "capnp", "safetensors")
_BROKEN_PIPE = 141
_FAILED_WRITES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class UsageError(ModeldError):
    """A command line that cannot be understood."""

    exit_code = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command; returns the exit status. User errors are one line on stderr."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_guarded("modeld", partial(_run, arguments))


def run_guarded(program: str, action: Callable[[], int]) -> int:
    """The action's exit status; what users can cause or cure becomes one line on stderr."""
    if sys.stdout is None:  # and whatever is opened first would be taken for it
        return _tell(program, "error: standard output is closed; give one, e.g. /dev/null", 1)
    try:
        with raising_on_signals():
            return _flushed(action)
    except ModeldError as error:
        return _tell(program, f"error: {error}", error.exit_code)
    except StoppedError as stopped:
        return _tell(program, str(stopped), stopped.exit_code)
    except ImportError as error:
        stopped_importing = _stopped(error)
        if stopped_importing is not None:
            return _tell(program, str(stopped_importing), stopped_importing.exit_code)
        package = (error.name or "modeld").partition(".")[0]
        if package in ("modeld", "msgschema", "compile"):
            raise
        return _tell(program, f"error: {_missing(package, error)}", 1)
    except BrokenPipeError:
        _discard_output()  # the reader has seen enough (`| head`)
        return _BROKEN_PIPE
    except OSError as error:
        if not _is_of_output(error):
            raise
        return _tell(program, f"error: {cannot_write('standard output', error)}", 1)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without all flags around it."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What a command line asks for. Raises UsageError where it cannot be understood."""
    parser = _Parser(
        prog="modeld", description="On-device inference daemon for camera-driven vehicles."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = next((a for a in arguments if not a.startswith("-")), None)
    for name, line in COMMANDS.items():
        command = commands.add_parser(name, help=line, description=line)
        if name == chosen:
            importlib.import_module(f"modeld.commands.{name}").add_arguments(command)
    return parser.parse_args(arguments)


def _run(arguments: Sequence[str]) -> int:
    args = parse(arguments)
    return int(importlib.import_module(f"modeld.commands.{args.command}").run(args))


def _missing(package: str, error: ImportError) -> str:
    reason = str(error).partition("\n")[0]
    if package in _REQUIRED or not isinstance(error, ModuleNotFoundError):
        return f"the package {package} cannot be loaded ({reason}); install modeld again"
    extra = _EXTRAS.get(package, "replay")
    return f"this needs the package {package}; install it with `pip install 'modeld[{extra}]'`"


def _stopped(error: BaseException | None) -> StoppedError | None:
    """What interrupted an import: some packages turn that into an error of their own."""
    while error is not None and not isinstance(error, StoppedError):
        error = error.__cause__ or error.__context__
    return error


def _flushed(action: Callable[[], int]) -> int:
    """The action's status once its output is out: here what goes wrong can still be told."""
    try:
        status = action()
    except SystemExit:  # argparse, which has printed its help
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return status


def _is_of_output(error: OSError) -> bool:
    """Whether it is standard output that could not be written: what stays in its buffer tells.

    Where Python was told to keep none (`-u`), what a write can end in must do.
    """
    if error.filename is not None or error.errno not in _FAILED_WRITES:
        return False
    return getattr(sys.stdout, "write_through", False) or not _flushes()


def _flushes() -> bool:
    try:
        sys.stdout.flush()
    except OSError:
        return False
    return True


def _discard_output() -> None:
    """What is left in the buffer has nowhere to go, and would be tried again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(program: str, line: str, exit_code: int) -> int:
    print(f"{program}: {line}", file=sys.stderr)
    if sys.stdout is not None and not _flushes():
        _discard_output()
    return exit_code
