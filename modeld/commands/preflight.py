"""What `modeld replay` and `modeld compare` refuse before any work is done."""

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

from modeld.cameras.frame import FrameLayout
from modeld.command_line import claim_outputs
from modeld.constants import MODEL_RUN_HZ
from modeld.errors import ModeldError
from modeld.manifest import Contract
from modeld.replay.compare import check_fields
from modeld.replay.compression import LOG_ENDINGS
from modeld.replay.device import CAMERAS
from modeld.replay.log import read_events
from modeld.replay.movie import MOVIE_ENDINGS
from modeld.replay.plots import PICTURE_ENDINGS
from modeld.replay.route import is_route

_LOCKSTEP = ("lockstep", "max")


def check_replay(args: argparse.Namespace) -> None:
    """Raise ModeldError for flags without sense and for files that cannot be used."""
    if args.from_frame < 0 or (args.frames is not None and args.frames < 1):
        raise ModeldError("--from-frame must be 0 or more, --frames 1 or more")
    rate_of(args.speed)
    compares = args.compare is not None or (args.out is not None and is_route(Path(args.source)))
    if args.compare is not None and args.out is None:
        raise ModeldError("--compare needs --out: the answers to compare are read from that log")
    for flag in ("plots", "ignore", "tolerance"):
        if getattr(args, flag) and not compares:
            raise ModeldError(f"--{flag} has a meaning only with --compare and --out")
    check_comparison(args)
    _check_distinct(args)
    if args.compare is not None:
        check_log(args.compare)
    claim_outputs(
        (args.out, "log", LOG_ENDINGS),
        (args.overlay, "video", MOVIE_ENDINGS),
        (args.plots, "picture", PICTURE_ENDINGS),
    )


def check_comparison(args: argparse.Namespace) -> None:
    """Raise ModeldError for a comparison that cannot be as the flags of `compare` want it."""
    if not args.tolerance >= 0 or math.isinf(args.tolerance):
        raise ModeldError(f"--tolerance {args.tolerance} is no tolerance; give 0 or more")
    check_fields(args.ignore)


def check_log(path: Path) -> None:
    """Raise ModeldError unless `path` can be read and begins like a log."""
    next(read_events(path), None)


def rate_of(speed: str) -> float | None:
    """Frames a second at a `--speed`; None in lock-step. Raises ModeldError for what is neither."""
    if speed in _LOCKSTEP:
        return None
    try:
        rate_hz = float(speed) * MODEL_RUN_HZ
    except ValueError:
        rate_hz = 0.0
    if not 0 < rate_hz < float("inf"):
        raise ModeldError(f"--speed {speed} is none of lockstep, max, or a factor as 1.0")
    return rate_hz


def default_camera(contract: Contract) -> str:
    """The first camera of the artifact that a known device has."""
    for camera in contract.cameras:
        if camera.name in CAMERAS:
            return camera.name
    names = ", ".join(camera.name for camera in contract.cameras) or "none"
    raise ModeldError(
        f"the artifact was built for cameras {names}, of which no known device is; "
        f"build it with --camera {CAMERAS[0]}"
    )


def check_camera(contract: Contract, layout: FrameLayout) -> None:
    """Raise ModeldError when the artifact cannot look at frames of this size."""
    size = f"{layout.width}x{layout.height}"
    names = [camera.name for camera in contract.cameras]
    if size not in names:
        raise ModeldError(
            f"the frames are {size}, the artifact was built for {', '.join(names) or 'none'}; "
            f"build it with --camera {size}, or replay with --camera {(names or [size])[0]}"
        )


def _check_distinct(args: argparse.Namespace) -> None:
    """No file that is written may be one that is read, or written otherwise."""
    seen = {Path(args.source).resolve(): "the source"}
    for flag, path in _files(args):
        place = path.resolve()
        if place in seen:
            raise ModeldError(f"{flag} {path} is {seen[place]} as well; name another file")
        seen[place] = flag


def _files(args: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    for flag in ("compare", "out", "overlay", "plots", "config", "sidecar"):
        path = getattr(args, flag)
        if path is not None:
            yield f"--{flag}", path
