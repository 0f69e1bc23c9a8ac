"""What the build is doing, on stderr: one line a stage, with the time it took."""

import sys
import time
from collections.abc import Callable
from typing import Protocol, TextIO


class Progress(Protocol):
    """Told of each stage of a build."""

    def stage(self, name: str) -> None:
        """A stage begins; the one before it has ended."""

    def advance(self, done: int, total: int) -> None:
        """`done` of `total` parts of the present stage are finished."""

    def note(self, text: str) -> None:
        """Something worth knowing about the present stage."""

    def done(self) -> None:
        """The last stage has ended."""

    def remark(self, text: str) -> None:
        """Something worth knowing about the whole, after its end."""


class Silent:
    """No progress at all, for use as a library."""

    def stage(self, name: str) -> None:
        """Nothing is shown."""

    def advance(self, done: int, total: int) -> None:
        """Nothing is shown."""

    def note(self, text: str) -> None:
        """Nothing is shown."""

    def done(self) -> None:
        """Nothing is shown."""

    def remark(self, text: str) -> None:
        """Nothing is shown."""


class StderrProgress:
    """Stages with their number, and their duration once they are over."""

    def __init__(
        self,
        stages: int,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stages = stages
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._begun = self._started = clock()
        self._number = 0
        self._name = ""

    def stage(self, name: str) -> None:
        """Show that stage `name` begins."""
        self._finish()
        self._number += 1
        self._name = name
        self._started = self._clock()
        self._show()

    def advance(self, done: int, total: int) -> None:
        """Show the count, and on a terminal how long the rest will take."""
        if not self._stream.isatty():
            return
        elapsed = self._clock() - self._started
        rest = f", about {elapsed / done * (total - done):.0f} s left" if done else ""
        self._show(f"{done} of {total}{rest} ")

    def note(self, text: str) -> None:
        """Show `text` on the stage's line."""
        self._stream.write(f"({text}) ")
        self._stream.flush()

    def done(self) -> None:
        """Show how long it took in all."""
        self._finish()
        self._stream.write(f"built in {self._clock() - self._begun:.1f} s\n")

    def remark(self, text: str) -> None:
        """Show `text` on a line of its own."""
        self._stream.write(f"{text}\n")

    def failed(self) -> None:
        """Close the line of the stage that failed; the error follows."""
        if self._number:
            self._stream.write("failed\n")

    def _show(self, details: str = "") -> None:
        # Back to the start of the line and clear it, where there is a line to rewrite.
        start = "\r\x1b[K" if details else ""
        self._stream.write(f"{start}[{self._number}/{self._stages}] {self._name} {details}")
        self._stream.flush()

    def _finish(self) -> None:
        if self._number:
            self._stream.write(f"{self._clock() - self._started:.1f} s\n")
