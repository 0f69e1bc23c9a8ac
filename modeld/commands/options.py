"""Flags that several commands share."""

import argparse
import os
from pathlib import Path

from modeld.program_cache import ProgramCache
from modeld.verdict import DEGRADING


def add_artifact(parser: argparse.ArgumentParser, flag: bool = False) -> None:
    """The artifact (positional, or `--artifact`), its pin, and what to accept of it."""
    if flag:
        parser.add_argument("--artifact", type=Path, required=True, metavar="DIR")
    else:
        parser.add_argument("artifact", type=Path, metavar="DIR")
    parser.add_argument("--pin", metavar="sha256:HEX", help="the identity that the build printed")
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        choices=sorted(DEGRADING),
        help="accept this degradation (repeatable)",
    )
    parser.add_argument(
        "--device", metavar="SELECTOR", help="part of the OpenCL platform's name, optionally :INDEX"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        help="where compiled programs are kept (default: systemd's CACHE_DIRECTORY or ~/.cache)",
    )


def program_cache(args: argparse.Namespace) -> ProgramCache:
    """The program cache that the flags or the environment of a service name."""
    if args.cache is not None:
        return ProgramCache(args.cache)
    if service := os.environ.get("CACHE_DIRECTORY"):  # set by systemd for CacheDirectory=
        return ProgramCache(Path(service) / "programs")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return ProgramCache(Path(home) / "modeld" / "programs")
