"""Where tables and progress for people go; only the tools use it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

# Rich takes 80 columns where there is no terminal to ask, and cuts our tables to that.
_FILE_WIDTH = 120

Item = TypeVar("Item")


def open_console(stderr: bool = False) -> Console:
    """As wide as the terminal, or wide enough for our tables in a file or a pipe."""
    console = Console(stderr=stderr)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _FILE_WIDTH
    return console


@contextmanager
def open_progress(console: Console, *columns: ProgressColumn) -> Iterator[Progress]:
    """A bar that is gone in the end, shown on terminals only: elsewhere an empty line is left."""
    progress = Progress(*columns, console=console, transient=True)
    with progress if console.is_interactive else nullcontext():
        yield progress


def with_progress(
    console: Console, what: str, items: Iterator[Item], total: int | None
) -> Iterator[Item]:
    """The items, while a bar counts them as frames."""
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("frames"),
        TimeRemainingColumn(),
    )
    with open_progress(console, *columns) as progress:
        task = progress.add_task(what, total=total)
        for item in items:
            progress.advance(task)
            yield item
