"""What the project's commands have in common: how they read their flags, and how they end."""

import argparse
import errno
import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NoReturn

from modeld.errors import ModeldError
from modeld.files import cannot_write, check_writable, ending_of
from modeld.signals import StoppedError, raising_on_signals

_REQUIRED = ("numpy", "pyopencl", "zmq", "capnp", "safetensors")
_BROKEN_PIPE = 141
_FAILED_WRITES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class UsageError(ModeldError):
    """A command line that cannot be understood."""

    exit_code = 2


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without all flags around it."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message}; see `{self.prog} --help`")

    def print_help(self, file: Any = None) -> None:
        """Write the help; argparse would pass over a failure to."""
        (file or sys.stdout).write(self.format_help())


def claim_outputs(*outputs: tuple[Path | None, str, Collection[str]]) -> None:
    """`claim_files` for what options name; also says when a name does not tell what it is.

    Of each its path, or None where it is not asked for; what it is; the endings of such a thing.
    """
    for path, what, endings in outputs:
        if path is not None:
            ending_of(path, what, endings)
    claim_files(*(path for path, _, _ in outputs if path is not None))


def claim_files(*paths: Path) -> None:
    """See that results can be written, before any work is done, and say what they will replace.

    Raises ModeldError where nothing can be written, or something is that is no regular file.
    """
    check_writable(*paths)
    if replaced := [str(path) for path in paths if path.exists()]:
        sys.stderr.write(f"replaces {' and '.join(replaced)} at the end\n")


def run_guarded(program: str, action: Callable[[], int], extra: str = "replay") -> int:
    """The action's exit status; what users can cause or cure becomes one line on stderr.

    `extra` is the one of modeld's that has the packages which the program may lack.
    """
    if sys.stderr is None:  # closed: there is nobody to tell, which is no reason to stop
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
    if sys.stdout is None:  # and whatever is opened first would be taken for it
        closed = "standard output is closed; open it, or send it to /dev/null"
        return _tell(program, f"error: {closed}", 1)
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
        return _tell(program, f"error: {_missing(package, error, extra)}", 1)
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""
        return _tell(
            program, f"error: out of memory{reason}; free some, or take a smaller model", 1
        )
    except BrokenPipeError:
        _discard_output()  # the reader has seen enough (`| head`)
        return _BROKEN_PIPE
    except OSError as error:
        if not _is_of_output(error):
            raise
        return _tell(program, f"error: {cannot_write('standard output', error)}", 1)


def _missing(package: str, error: ImportError, extra: str) -> str:
    reason = str(error).partition("\n")[0]
    if package in _REQUIRED or not isinstance(error, ModuleNotFoundError):
        return f"the package {package} cannot be loaded ({reason}); install modeld again"
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
    sys.stderr.write(f"{program}: {line}\n")
    if sys.stdout is not None and not _flushes():
        _discard_output()
    return exit_code
