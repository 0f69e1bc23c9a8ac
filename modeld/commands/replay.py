"""`modeld replay SOURCE`: a recording through the daemon's own loop, its answers into a log.

With `--serve` the daemon is another process; see `serving`.
"""

import argparse
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from modeld import selftest
from modeld.artifact import Artifact
from modeld.clock import SystemClock
from modeld.commands import options
from modeld.commands.compare import add_comparison, compare_logs, show
from modeld.commands.preflight import check_camera, check_replay, default_camera, rate_of
from modeld.commands.serving import add_serving, check_flags, serve
from modeld.config import Config, load_config
from modeld.console import open_console, with_progress
from modeld.constants import MODEL_RUN_HZ
from modeld.counts import Count
from modeld.daemon import check_contract
from modeld.errors import ModeldError
from modeld.executor import Executor
from modeld.replay.compare import compare
from modeld.replay.log import LogWriter, read_events
from modeld.replay.logged_source import logged_answers
from modeld.replay.movie import MovieWriter
from modeld.replay.overlay import draw_overlay, frame_to_rgb, view_of
from modeld.replay.plots import plot_comparison, read_curves
from modeld.replay.replay import Replay
from modeld.replay.route import is_route, open_route
from modeld.replay.scene import scene_of
from modeld.replay.simulation import RecordedDevice
from modeld.replay.sources import SOURCES, open_source
from modeld.rig.latency import Histogram
from modeld.signals import Stop, finishing_on_signals, tell_stopped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    parser.add_argument("source", metavar="SOURCE", help=SOURCES)
    options.add_artifact(parser, flag=True, required=False)
    parser.add_argument(
        "--out", type=Path, metavar="LOG", help="write a log (.zst, .bz2, or raw without an ending)"
    )
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
    check_replay(args)
    console = open_console(stderr=True)
    done = (_serve if args.serve else _replay)(args, console)
    if done.status:
        return done.status
    if not done.answered:
        raise ModeldError(_nothing_answered(args))
    if args.compare is not None:
        comparison = compare_logs(args.compare, args.out, args)
        show(comparison, open_console())
        return 0 if comparison.equal else 1
    if _is_route(args):
        _compare_with_logged(args, console, done.answered)
    return 0 if done.complete else 1


@dataclass(frozen=True, slots=True)
class _Done:
    """Which frames were answered, whether all that had to be, and what a signal made of it."""

    answered: frozenset[int]
    complete: bool
    status: int = 0


def _nothing_answered(args: argparse.Namespace) -> str:
    if args.serve:
        return f"{args.source}: no frame was answered; the daemon's own log says why"
    if args.from_frame:
        return f"{args.source} has no frame {args.from_frame}; give a smaller --from-frame"
    return f"{args.source} gave no frame to answer; give {SOURCES}"


def _is_route(args: argparse.Namespace) -> bool:
    return is_route(Path(args.source))


def _serve(args: argparse.Namespace, console: Console) -> _Done:
    """For a daemon elsewhere."""
    with finishing_on_signals() as stop, closing(_open(args, args.camera)) as device:
        served = serve(args, console, device, stop)
    _remark(console, args, device)
    return _Done(served.answered, not served.unanswered, _told(args, stop, served.frames))


def _replay(args: argparse.Namespace, console: Console) -> _Done:
    """In this process."""
    config = Config() if args.config is None else load_config(args.config)
    artifact = options.open_trusted(args)
    contract = artifact.manifest.contract
    check_contract(contract)
    # A route knows its cameras.
    camera = args.camera or (None if _is_route(args) else default_camera(contract))
    with ExitStack() as stack:
        device = stack.enter_context(closing(_open(args, camera)))
        check_camera(contract, device.recording.layout)
        replay = Replay(_load(args, artifact), device, config)
        stop = stack.enter_context(finishing_on_signals())
        turn_times = Histogram()
        answered = _play(args, console, replay, device, turn_times, stop)
        dropped = replay.health.counts[Count.DROPS]
    if answered:
        _summary(console, len(answered), dropped, turn_times)
        _remark(console, args, device)
    return _Done(answered, complete=True, status=_told(args, stop, len(answered)))


def _told(args: argparse.Namespace, stop: Stop, frames: int) -> int:
    """The exit status of a replay that may have been stopped, which keeps what it has."""
    files = " and ".join(str(path) for path in (args.out, args.overlay) if path is not None)
    return tell_stopped(stop, f"after {frames} frames" + (f", kept in {files}" if files else ""))


def _compare_with_logged(
    args: argparse.Namespace, console: Console, answered: frozenset[int]
) -> None:
    """Show how the answers differ from those that the route holds.

    Another model may have made them, so that is for people to judge and no failure.
    """
    logged = partial(logged_answers, open_route(Path(args.source)), answered)
    if args.out is None:
        if next(logged(), None) is not None:
            console.print("the route holds answers of its own; give --out to compare with them")
        return
    comparison = compare(logged(), read_events(args.out), args.tolerance, args.ignore)
    if not comparison.messages:
        return
    open_console().print("against the answers that the route holds:")
    show(comparison, open_console())
    if args.plots is not None:
        curves = read_curves(logged()), read_curves(read_events(args.out))
        plot_comparison(args.plots, *curves, ("logged", args.out.name))


def _load(args: argparse.Namespace, artifact: Artifact) -> Executor:
    executor = options.load_executor(args, artifact)
    selftest.check(executor, artifact)
    executor.keep_programs()
    return executor


def _open(args: argparse.Namespace, camera: str | None) -> RecordedDevice:
    return open_source(
        args.source,
        camera,
        SystemClock(),
        rate_of(args.speed),
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
    stop: Stop,
) -> frozenset[int]:
    """Replay into what the flags ask for; the ids of the frames that were answered."""
    answered = set()
    with ExitStack() as stack:
        log = stack.enter_context(LogWriter(args.out)) if args.out else None
        movie = (
            stack.enter_context(MovieWriter(args.overlay, MODEL_RUN_HZ)) if args.overlay else None
        )
        _write(log, replay.opening())
        turns = replay.turns(stop)
        for turn in with_progress(console, "replaying", turns, device.recording.total):
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
