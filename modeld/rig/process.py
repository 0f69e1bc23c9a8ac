"""The daemon as a process of its own: started, watched, stopped."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from modeld.errors import ModeldError
from modeld.rig.environment import resident_bytes

_STOP_TIMEOUT_S = 10.0
_TICKS = os.sysconf("SC_CLK_TCK")


class DaemonProcess:
    """`modeld run` with the given arguments; its log goes to a file.

    As a context it is always stopped. `started` is CLOCK_MONOTONIC in ns just before the start.
    """

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self.started = time.monotonic_ns()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "modeld", "run", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def running(self) -> bool:
        """Whether it runs; False after it ended well.

        Raises ModeldError with the last line of its log when it failed.
        """
        status = self._process.poll()
        if status is None:
            return True
        if status != 0:
            raise ModeldError(f"the daemon failed ({status}): {self._last_line()}")
        return False

    def resident_bytes(self) -> int | None:
        """Its resident memory; None when it is gone."""
        return resident_bytes(self.pid)

    def cpu_seconds(self) -> float | None:
        """Processor time it used so far, all threads; None when it is gone."""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return None
        # The name, in parentheses, may hold anything; user and system time follow it.
        numbers = text.rpartition(")")[2].split()
        return (int(numbers[11]) + int(numbers[12])) / _TICKS

    def stop(self) -> None:
        """Ask it to end, as a service manager does; insist after ten seconds."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _last_line(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("modeld: error: ") if lines else f"see {self._log}"
