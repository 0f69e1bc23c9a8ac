"""`modeld replay SOURCE`: a recording through the daemon's own loop, its answers into a log.

With `--serve` the daemon is another process; see `serving`.
"""

import argparse
from collections.abc import Iterable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from rich.console import Console

from modeld import selftest
from modeld.clock import SystemClock
from modeld.commands import options
from modeld.commands.compare import add_comparison, compare_logs, show
from modeld.commands.serving import add_serving, check_flags, serve
from modeld.config import Config, load_config
from modeld.console import open_console, with_progress
from modeld.constants import MODEL_RUN_HZ
from modeld.counts import Count
from modeld.errors import ModeldError
from modeld.executor import Executor
from modeld.manifest import Contract
from modeld.opencl import select_device
from modeld.replay.compare import compare
from modeld.replay.device import CAMERAS
from modeld.replay.log import LogWriter, read_events
from modeld.replay.logged_source import logged_answers
from modeld.replay.movie import MovieWriter
from modeld.replay.overlay import draw_overlay, frame_to_rgb, view_of
from modeld.replay.plots import plot_comparison, read_curves
from modeld.replay.replay import Replay
from modeld.replay.route import is_route, open_route
from modeld.replay.scene import scene_of
from modeld.replay.simulation import RecordedDevice
from modeld.replay.sources import open_source
from modeld.rig.latency import Histogram


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    parser.add_argument(
        "source", metavar="SOURCE", help="a route, a video, a folder of images, or road[:SEED]"
    )
    options.add_artifact(parser, flag=True, required=False)
    parser.add_argument("--out", type=Path, metavar="LOG", help="write a log (.zst, .bz2 or raw)")
    parser.add_argument(
        "--overlay", type=Path, metavar="MP4", help="write a video with the answers drawn on it"
    )
    parser.add_argument("--compare", type=Path, metavar="LOG", help="compare with this log after")
    add_comparison(parser)
    parser.add_argument(
        "--camera",
        metavar="WxH",
        help="frame size of the simulated device (default: the artifact's first)",
    )
    parser.add_argument("--sidecar", type=Path, metavar="TOML", help="which camera took the clip")
    parser.add_argument("--from-frame", type=int, default=0, metavar="N", help="skip N frames")
    parser.add_argument("--frames", type=int, metavar="M", help="at most M frames")
    parser.add_argument(
        "--speed",
        default="lockstep",
        metavar="lockstep|max|FACTOR",
        help="lockstep (default): every frame answered before the next is made; max: the same, "
        "frames made ahead; 1.0: at 20 Hz whether answered or not",
    )
    parser.add_argument("--config", type=Path, metavar="TOML", help="configuration file")
    add_serving(parser)


def run(args: argparse.Namespace) -> int:
    """Replay; 0 when every frame was answered and the comparison, if any, agrees."""
    check_flags(args)
    if args.compare is not None and args.out is None:
        raise ModeldError("--compare needs --out: the answers to compare are read from that log")
    console = open_console(stderr=True)
    complete, answered = (_serve if args.serve else _replay)(args, console)
    if not answered:
        what = "no frame was answered" if args.serve else "gave no frame to answer"
        raise ModeldError(f"{args.source}: {what}")
    if args.compare is not None:
        comparison = compare_logs(args.compare, args.out, args)
        show(comparison, open_console())
        return 0 if comparison.equal else 1
    if _is_route(args) and args.out is not None:
        _compare_with_logged(args, answered)
    return 0 if complete else 1


def _is_route(args: argparse.Namespace) -> bool:
    return is_route(Path(args.source))


def _serve(args: argparse.Namespace, console: Console) -> tuple[bool, frozenset[int]]:
    """For a daemon elsewhere: whether all frames waited for were answered, and which were."""
    with closing(_open(args, args.camera)) as device:
        served = serve(args, console, device)
    _remark(console, args, device)
    return not served.unanswered, served.answered


def _replay(args: argparse.Namespace, console: Console) -> tuple[bool, frozenset[int]]:
    """In this process; as `_serve`."""
    config = Config() if args.config is None else load_config(args.config)
    executor = _executor(args)
    # A route knows its cameras.
    camera = args.camera or (None if _is_route(args) else _camera(executor.contract))
    with closing(_open(args, camera)) as device:
        replay = Replay(executor, device, config)
        turn_times = Histogram()
        answered = _play(args, console, replay, device, turn_times)
        dropped = replay.health.counts[Count.DROPS]
    if answered:
        _summary(console, len(answered), dropped, turn_times)
        _remark(console, args, device)
    return True, answered


def _compare_with_logged(args: argparse.Namespace, answered: frozenset[int]) -> None:
    """Show how the answers differ from those that the route holds.

    Another model may have made them, so that is for people to judge and no failure.
    """
    logged = partial(logged_answers, open_route(Path(args.source)), answered)
    comparison = compare(logged(), read_events(args.out), args.tolerance, args.ignore)
    if not comparison.messages:
        return
    open_console().print("against the answers that the route holds:")
    show(comparison, open_console())
    if args.plots is not None:
        curves = read_curves(logged()), read_curves(read_events(args.out))
        plot_comparison(args.plots, *curves, ("logged", args.out.name))


def _executor(args: argparse.Namespace) -> Executor:
    artifact = options.open_trusted(args)
    device = select_device(args.device) if args.device else None
    executor = Executor(artifact, device, cache=options.program_cache(args), allow=args.allow)
    selftest.check(executor, artifact)
    executor.keep_programs()
    return executor


def _camera(contract: Contract) -> str:
    for camera in contract.cameras:
        if camera.name in CAMERAS:
            return camera.name
    names = ", ".join(camera.name for camera in contract.cameras) or "none"
    raise ModeldError(
        f"the artifact was built for cameras {names}, of which no known device is; "
        f"build it with --camera {CAMERAS[0]}"
    )


def _open(args: argparse.Namespace, camera: str | None) -> RecordedDevice:
    if args.from_frame < 0 or (args.frames is not None and args.frames < 1):
        raise ModeldError("--from-frame must be 0 or more, --frames 1 or more")
    rate_hz = None
    if args.speed not in ("lockstep", "max"):
        try:
            rate_hz = float(args.speed) * MODEL_RUN_HZ
        except ValueError:
            rate_hz = 0.0
        if not 0 < rate_hz < float("inf"):
            raise ModeldError(f"--speed {args.speed} is none of lockstep, max, or a factor as 1.0")
    return open_source(
        args.source,
        camera,
        SystemClock(),
        rate_hz,
        sidecar=args.sidecar,
        first=args.from_frame,
        count=args.frames,
        ahead=args.speed == "max",
    )


def _play(
    args: argparse.Namespace,
    console: Console,
    replay: Replay,
    device: RecordedDevice,
    turn_times: Histogram,
) -> frozenset[int]:
    """Replay into what the flags ask for; the ids of the frames that were answered."""
    answered = set()
    with ExitStack() as stack:
        log = stack.enter_context(LogWriter(args.out)) if args.out else None
        movie = (
            stack.enter_context(MovieWriter(args.overlay, MODEL_RUN_HZ)) if args.overlay else None
        )
        _write(log, replay.opening())
        for turn in with_progress(console, "replaying", replay.turns(), device.recording.total):
            answered.add(turn.frame.frame_id)
            if turn.times is not None:
                turn_times.record(turn.times.published - turn.times.synced)
            _write(log, turn.messages)
            if movie is not None:
                view = view_of(device.recording)
                picture = frame_to_rgb(turn.frame)
                movie.add(draw_overlay(picture, scene_of(turn.answer), view, device.truth))
        _write(log, replay.closing())
    return frozenset(answered)


def _write(log: LogWriter | None, messages: Iterable[bytes]) -> None:
    if log is not None:
        for message in messages:
            log.write(message)


def _summary(console: Console, answered: int, dropped: int, turn_times: Histogram) -> None:
    times = turn_times.summary_ms()
    shown = (
        ", ".join(f"{name} {times[name]:.1f}" for name in ("p50", "p99", "max")) if times else ""
    )
    console.print(f"{answered} frames answered, {dropped} dropped; turn {shown} ms")


def _remark(console: Console, args: argparse.Namespace, device: RecordedDevice) -> None:
    """What was written, and what went wrong with the recording."""
    for path in (args.out, args.overlay):
        if path is not None:
            console.print(f"{path}")
    for remark in device.remarks():
        console.print(f"[yellow]{remark}[/]", highlight=False)
