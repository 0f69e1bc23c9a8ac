"""`modeld rig`: does the daemon keep its latency budget on this machine?

Starts the daemon as a process of its own under a camera's rhythm, listens to it as a consumer
would, and judges what it hears by a budget.
"""

import argparse
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from modeld.clock import SystemClock
from modeld.command_line import claim_outputs
from modeld.commands import options
from modeld.config import load_config
from modeld.console import open_console, open_progress
from modeld.constants import DT_MODEL, MODEL_RUN_HZ
from modeld.errors import ModeldError
from modeld.files import write_result
from modeld.messaging import ZmqTransport
from modeld.messaging.zmq_transport import LOOPBACK
from modeld.replay.plots import PICTURE_ENDINGS, plot_latency
from modeld.rig.budget import read_budget, violations
from modeld.rig.export import to_csv, to_trace
from modeld.rig.measure import Measurement, Plan, measure
from modeld.rig.recorder import END_TO_END, Recorder
from modeld.rig.report import latency_table, report, result_line, summary_table
from modeld.signals import finishing_on_signals, tell_stopped

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    options.add_artifact(parser, flag=True)
    parser.add_argument(
        "--source",
        default="loop:road",
        metavar="SPEC",
        help="what the cameras see (default loop:road: prepared frames, so only the daemon works)",
    )
    parser.add_argument(
        "--camera", metavar="WxH", help="frame size (default: the artifact's first)"
    )
    parser.add_argument("--sidecar", type=Path, metavar="TOML", help="which camera took the clip")
    parser.add_argument(
        "--duration",
        default="60s",
        metavar="TIME",
        help="how long to measure: 60s (default), 10m, 8h for a soak",
    )
    parser.add_argument("--rate", type=float, default=float(MODEL_RUN_HZ), metavar="HZ")
    parser.add_argument(
        "--deadline",
        type=float,
        default=1e3 * DT_MODEL,
        metavar="MS",
        help="from end of frame to the message (default: one period, 50)",
    )
    parser.add_argument(
        "--budget", type=Path, metavar="TOML", help="limits; any broken one makes the exit status 1"
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw every frame's latency (.png, .svg or .pdf)"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write every frame's latency")
    parser.add_argument("--trace", type=Path, metavar="JSON", help="write a Perfetto trace")
    parser.add_argument("--config", type=Path, metavar="TOML", help="the daemon's configuration")
    parser.add_argument(
        "--bind",
        default=LOOPBACK,
        metavar="ADDRESS",
        help="where the daemon publishes; 127.0.0.2 keeps clear of one that already runs",
    )


def run(args: argparse.Namespace) -> int:
    """Measure and report; 0 within the budget (or without one), 1 outside it."""
    limits = read_budget(args.budget) if args.budget is not None else {}
    if args.config is not None:
        load_config(args.config)
    plan_seconds = parse_duration(args.duration)
    if not (0.01 <= args.rate <= 10_000 and args.deadline > 0):
        raise ModeldError(
            f"--rate {args.rate} or --deadline {args.deadline} is out of range; give a rate from "
            "0.01 to 10000 Hz and a deadline above 0 ms"
        )
    claim_outputs(
        (args.plot, "picture", PICTURE_ENDINGS),
        (args.csv, "CSV file", [".csv"]),
        (args.trace, "trace", [".json"]),
    )
    console = open_console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="modeld-rig-") as folder:
        plan = Plan(
            daemon_arguments(args), args.rate, args.deadline, plan_seconds, Path(folder) / "log"
        )
        with (
            finishing_on_signals() as stop,
            ZmqTransport(connect=args.bind) as transport,
            _progress(console, plan_seconds) as on_second,
        ):
            measurement = measure(plan, transport, SystemClock(), on_second=on_second, stop=stop)
    numbers = report(measurement, args.source)
    broken = violations(limits, numbers)
    console.print(latency_table(numbers), summary_table(numbers))
    for violation in broken:
        console.print(f"[red]over budget:[/] {violation}")
    print(result_line(numbers, broken), flush=True)
    _write_files(args, measurement)
    stopped = tell_stopped(stop, f"after {measurement.seconds:.0f} of {plan_seconds:g} s")
    return stopped or (1 if broken else 0)


def parse_duration(text: str) -> float:
    """Seconds of `90`, `60s`, `10m` or `8h`; ModeldError for anything else and for zero."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if seconds <= 0:
        raise ModeldError(f"--duration {text} is no time; give for instance 60s, 10m or 8h")
    return seconds


def daemon_arguments(args: argparse.Namespace) -> list[str]:
    """`modeld run`'s flags for what these flags describe, pinned to the artifact found now."""
    digest = options.open_trusted(args).digest
    arguments = ["--artifact", str(args.artifact), "--pin", digest, "--source", args.source]
    if args.source != "visionipc":
        arguments += ["--rate", str(args.rate)]
    for flag in ("camera", "sidecar", "device", "cache", "config", "bind"):
        if (value := getattr(args, flag)) is not None:
            arguments += [f"--{flag}", str(value)]
    for flag in ("trust", "allow"):
        for value in getattr(args, flag):
            arguments += [f"--{flag}", str(value)]
    return arguments


def _write_files(args: argparse.Namespace, measurement: Measurement) -> None:
    recorder = measurement.recorder
    rows, samples = list(recorder.rows), list(recorder.samples)
    if args.plot is not None:
        misses = recorder.misses
        title = f"{args.source} at {args.rate:g} Hz: {misses.frames} frames, {misses.total} missed"
        plot_latency(args.plot, rows, samples, args.deadline, title)
    contents = ((args.csv, to_csv(rows, samples)), (args.trace, to_trace(rows)))
    for path, content in contents:
        if path is not None:
            write_result(path, content.encode())


@contextmanager
def _progress(console: Console, seconds: float) -> Iterator["_OnSecond"]:
    columns = (
        TextColumn("measuring"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
    )
    with open_progress(console, *columns) as progress:
        yield _OnSecond(progress, seconds)


class _OnSecond:
    """Shows how a run goes."""

    def __init__(self, progress: Progress, seconds: float) -> None:
        self._progress = progress
        self._task = progress.add_task("rig", total=seconds, state="starting the daemon")

    def __call__(self, elapsed: float, recorder: Recorder) -> None:
        now = recorder.histograms[END_TO_END].summary_ms()
        state = f"p50 {now['p50']:.1f} p99 {now['p99']:.1f} ms, " if now else ""
        state += f"{recorder.misses.total} missed"
        self._progress.update(self._task, completed=elapsed, state=state)
