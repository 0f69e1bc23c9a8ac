"""The command `modeld`: one sub-command a file in `modeld/commands`."""

import argparse
import importlib
import sys
from collections.abc import Sequence

from modeld.errors import ModeldError

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
    try:
        args = _parse(arguments)
        return int(importlib.import_module(f"modeld.commands.{args.command}").run(args))
    except ModeldError as error:
        print(f"modeld: error: {error}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("modeld"):
            raise
        print(
            f"modeld: error: `modeld {arguments[0]}` needs the package {error.name}; "
            "install modeld[replay,rig]",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        return 130


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="modeld", description="On-device inference daemon for camera-driven vehicles."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chosen = next((a for a in arguments if not a.startswith("-")), None)
    for name, line in COMMANDS.items():
        command = commands.add_parser(name, help=line, description=line)
        if name == chosen:
            importlib.import_module(f"modeld.commands.{name}").add_arguments(command)
    return parser.parse_args(arguments)
