"""Flags that several commands share."""

import argparse
import os
import re
import sys
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load

from modeld.artifact import Artifact, open_artifact
from modeld.errors import ModeldError
from modeld.executor import Executor
from modeld.files import read_small
from modeld.manifest import REFERENCE_FILE
from modeld.opencl import select_device
from modeld.program_cache import ProgramCache
from modeld.selftest import named
from modeld.signature import load_public_key, require_signature
from modeld.verdict import DEGRADING

# How long a command may say nothing while it compiles.
_SILENCE_S = 2.0


def add_artifact(
    parser: argparse.ArgumentParser, flag: bool = False, required: bool = True
) -> None:
    """The artifact (positional, or `--artifact`), its pin, and what to accept of it."""
    if flag:
        parser.add_argument("--artifact", type=Path, required=required, metavar="DIR")
    else:
        parser.add_argument("artifact", type=Path, metavar="DIR")
    parser.add_argument("--pin", metavar="sha256:HEX", help="the identity that the build printed")
    parser.add_argument(
        "--pin-file", type=Path, metavar="FILE", help="a file whose first line is the pin"
    )
    parser.add_argument(
        "--trust",
        action="append",
        default=[],
        type=Path,
        metavar="KEY.pub",
        help="require a signature by this key (repeatable: by one of these keys)",
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        choices=sorted(reason.value for reason in DEGRADING),
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


def open_trusted(args: argparse.Namespace) -> Artifact:
    """Open the artifact that the flags name, under the pin and the keys that they name.

    Raises ModeldError (ArtifactRefusedError with its reason) when it must not be used.
    """
    artifact = open_artifact(args.artifact, read_pin(args))
    if args.trust:
        require_signature(artifact, [load_public_key(path) for path in args.trust])
    return artifact


def load_executor(args: argparse.Namespace, artifact: Artifact, **more: Any) -> Executor:
    """The artifact on the device that the flags name; `more` is for the executor.

    Says so when programs have to be compiled first, which takes seconds, on a small board minutes.
    """
    device = select_device(args.device) if args.device else None
    cache = program_cache(args)
    loaded = Event()
    Thread(target=_tell_compiling, args=(cache, loaded), daemon=True).start()
    try:
        return Executor(artifact, device, allow=args.allow, cache=cache, **more)
    finally:
        loaded.set()


def reference_inputs(artifact: Artifact) -> dict[str, npt.NDArray[np.generic]]:
    """What `run_model` got in the artifact's first reference run, by name."""
    seed = artifact.manifest.reference.seeds[0]
    return named(load(artifact.read(REFERENCE_FILE)), f"{seed}/input/")


def read_pin(args: argparse.Namespace) -> str | None:
    """The pin from `--pin` or `--pin-file`, or None."""
    if args.pin is not None and not re.fullmatch(r"sha256:[0-9a-f]{64}", args.pin):
        raise ModeldError(
            f"--pin {args.pin!r} is no identity; write sha256: and 64 lower-case hex digits, as "
            "the build prints it"
        )
    if args.pin_file is None:
        return None if args.pin is None else str(args.pin)
    if args.pin:
        raise ModeldError("--pin and --pin-file are both given; use one")
    try:
        words = read_small(args.pin_file).split()
    except UnicodeDecodeError:
        words = []
    if not words or not words[0].startswith("sha256:"):
        raise ModeldError(f"{args.pin_file} does not begin with sha256:…; write the pin into it")
    return str(words[0])


def program_cache(args: argparse.Namespace) -> ProgramCache:
    """The program cache that the flags or the environment of a service name."""
    if args.cache is not None:
        return ProgramCache(args.cache)
    if service := os.environ.get("CACHE_DIRECTORY"):  # set by systemd for CacheDirectory=
        return ProgramCache(Path(service) / "programs")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return ProgramCache(Path(home) / "modeld" / "programs")


def _tell_compiling(cache: ProgramCache, loaded: Event) -> None:
    while not loaded.wait(_SILENCE_S):
        if cache.misses:
            programs = f"{cache.misses} program{'' if cache.misses == 1 else 's'}"
            sys.stderr.write(f"modeld: compiling {programs} for this device\n")
            return
