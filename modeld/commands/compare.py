"""`modeld compare LOG LOG`: do two logs hold the same answers, and if not, where do they differ?"""

import argparse
import json
import math
from dataclasses import asdict
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from modeld.command_line import claim_outputs
from modeld.commands.preflight import check_comparison
from modeld.console import open_console
from modeld.errors import ModeldError
from modeld.replay.compare import Comparison, compare
from modeld.replay.log import read_events
from modeld.replay.plots import PICTURE_ENDINGS, plot_comparison, read_curves

_SHOWN_FIELDS = 25


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    parser.add_argument("first", type=Path, metavar="REFERENCE", help="a log: raw, .bz2 or .zst")
    parser.add_argument("second", type=Path, metavar="LOG")
    add_comparison(parser)
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")


def add_comparison(parser: argparse.ArgumentParser) -> None:
    """Declare how to compare; `modeld replay --compare` shares these."""
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        metavar="T",
        help="numbers agree when |a - b| <= T * max(1, |b|) (default 0: exactly)",
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="FIELD",
        help="leave out a field, as timestampEof or modelV2.position.x (repeatable)",
    )
    parser.add_argument(
        "--plots",
        type=Path,
        metavar="FILE",
        help="draw the eight curves of both logs (.png, .svg or .pdf)",
    )


def run(args: argparse.Namespace) -> int:
    """Compare; 0 when the logs agree, 1 when they do not."""
    check_comparison(args)
    claim_outputs((args.plots, "picture", PICTURE_ENDINGS))
    comparison = compare_logs(args.first, args.second, args)
    if args.json:
        print(to_json(comparison))
    else:
        show(comparison, open_console())
    return 0 if comparison.equal else 1


def compare_logs(first: Path, second: Path, args: argparse.Namespace) -> Comparison:
    """Compare two files as the flags of `add_comparison` say, and draw the plots they ask for."""
    comparison = compare(read_events(first), read_events(second), args.tolerance, args.ignore)
    if not comparison.messages and not comparison.only_first and not comparison.only_second:
        raise ModeldError(f"neither {first} nor {second} holds a model message; nothing to compare")
    if args.plots is not None:
        curves = [read_curves(read_events(path)) for path in (first, second)]
        names = (first.name, second.name)
        if names[0] == names[1]:
            names = (str(first), str(second))
        plot_comparison(args.plots, curves[0], curves[1], names)
    return comparison


def to_json(comparison: Comparison) -> str:
    """The outcome as JSON; infinite differences as the string "inf"."""
    content = {"equal": comparison.equal, **asdict(comparison)}
    for difference in content["differences"]:
        if math.isinf(difference["largest"]):
            difference["largest"] = "inf"
    return json.dumps(content, indent=2)


def show(comparison: Comparison, console: Console) -> None:
    """Print the outcome for people."""
    for frames, where in ((comparison.only_first, "first"), (comparison.only_second, "second")):
        for service, ids in frames.items():
            alone = f"{service}: {_counted(len(ids), 'frame')} only in the {where} log"
            console.print(f"[red]{alone}[/]: {_some(ids)}")
    if comparison.differences:
        console.print(_table(comparison))
        if (more := len(comparison.differences) - _SHOWN_FIELDS) > 0:
            console.print(f"and {_counted(more, 'more field')}")
    verdict = "[green]the logs agree[/]" if comparison.equal else "[red]the logs differ[/]"
    console.print(f"{verdict}: {_outcome(comparison)}")


def _outcome(comparison: Comparison) -> str:
    if not comparison.messages:
        return "no frame is in both"
    fields = len(comparison.differences)
    differ = f"{fields} fields differ" if fields > 1 else f"{fields or 'no'} field differs"
    return f"{_counted(comparison.messages, 'message')} compared, {differ}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _table(comparison: Comparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("field", overflow="fold")
    for name in ("largest difference", "at", "first at", "frames"):
        table.add_column(name, justify="right", no_wrap=True)
    for difference in comparison.differences[:_SHOWN_FIELDS]:
        largest = (
            "not comparable" if math.isinf(difference.largest) else f"{difference.largest:.3g}"
        )
        row = (difference.largest_frame, difference.first_frame, difference.frames)
        table.add_row(difference.field.replace("[", "\\["), largest, *map(str, row))
    return table


def _some(ids: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, ids[:8]))
    return f"{shown}, …" if len(ids) > 8 else shown
