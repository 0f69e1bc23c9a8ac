"""The command `modeld`: one sub-command a file in `modeld/commands`."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from functools import partial

from modeld.command_line import Parser, run_guarded

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


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command; returns the exit status. User errors are one line on stderr."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_guarded("modeld", partial(_run, arguments))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What a command line asks for. Raises UsageError where it cannot be understood."""
    parser = Parser(
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
