"""The whole chain shown at once: network to artifact, daemon at 20 Hz, subscriber, pictures.

`python -m modeld.replay.demo --out DIR [CLIP]`. The daemon is the one that a device runs, in a
process of its own; this process only listens to its sockets. What was built or painted before
is used again.
"""

import argparse
import hashlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from modeld.artifact import open_artifact
from modeld.cameras.frame import EndOfStreamError
from modeld.clock import SystemClock
from modeld.command_line import Parser, claim_files, run_guarded
from modeld.console import open_console, open_progress
from modeld.constants import DT_MODEL, MODEL_RUN_HZ
from modeld.errors import ModeldError
from modeld.files import make_folder, write_result
from modeld.messaging import ZmqTransport
from modeld.messaging.zmq_transport import LOOPBACK
from modeld.replay.movie import MovieWriter
from modeld.replay.overlay import Pixels, draw_overlay, frame_to_rgb, view_of
from modeld.replay.plots import plot_latency
from modeld.replay.road.truth import Truth
from modeld.replay.roadclip import paint_road_clip
from modeld.replay.roads import true_lines
from modeld.replay.roadtruth import road_errors, road_truths
from modeld.replay.scene import scene_of
from modeld.replay.sources import open_source
from modeld.rig.measure import Measurement, Plan, measure
from modeld.rig.report import latency_table, report, summary_table

CAMERA = "1344x760"
_DEADLINE_MS = 1e3 * DT_MODEL
_ROAD_SEED, _ROAD_FRAMES = 1, 120
_COMPILER = Path(__file__).parents[2] / "compile"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demonstration; user errors are one line on stderr."""
    return run_guarded("demo", lambda: _show(_parse(argv), open_console(stderr=True)))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m modeld.replay.demo", description=__doc__)
    parser.add_argument("clip", nargs="?", type=Path, help="a video with its sidecar")
    parser.add_argument("--out", type=Path, default=Path("out/demo"), metavar="DIR")
    parser.add_argument("--artifact", type=Path, metavar="DIR", help="instead of building one")
    parser.add_argument("--bind", default=LOOPBACK, metavar="ADDRESS")
    parser.add_argument("--movie", action="store_true", help="also draw every frame into an MP4")
    return parser.parse_args(argv)


def _show(args: argparse.Namespace, console: Console) -> int:
    make_folder(args.out)
    pictures = ["overlay.png", "latency.png", *(["overlay.mp4"] if args.movie else [])]
    claim_files(*(args.out / name for name in pictures))
    artifact = args.artifact or _build(args.out, console)
    open_artifact(artifact)  # before a road is painted for it
    clip = args.clip or _paint(args.out, console)
    answers: dict[int, Any] = {}
    measurement = _run(args, artifact, clip, answers, console)
    numbers = report(measurement, str(clip))
    truths = {} if args.clip else road_truths(_ROAD_SEED, answers.keys())
    results = _draw(args, clip, answers, measurement, truths)
    console.print(latency_table(numbers), summary_table(numbers))
    if truths:
        scenes = {number: scene_of(event) for number, event in answers.items()}
        console.print(road_errors(scenes, truths).table())
    for what, path in results.items():
        console.print(f"  [bold]{what:<9}[/]  {path}", soft_wrap=True)
    return 0


def _build(out: Path, console: Console) -> Path:
    """The reference network as an artifact, made by the build side in processes of its own."""
    # Another compiler makes another artifact, so its sources are part of the name.
    digest = hashlib.sha256()
    for source in sorted(p for p in _COMPILER.rglob("*") if p.suffix in (".py", ".cl", ".json")):
        digest.update(source.read_bytes())
    onnx = out / "reference.onnx"
    artifact = out / f"artifact-{digest.hexdigest()[:12]}"
    if artifact.exists():
        console.print(f"using {artifact}, built before")
        return artifact
    console.print("building the reference network")
    steps = (
        ["reference", "--out", str(onnx)],
        ["build", str(onnx), "--camera", CAMERA, "--out", str(artifact)],
    )
    for step in steps:
        done = subprocess.run([sys.executable, "-m", "compile", *step], check=False)
        if done.returncode:
            raise ModeldError(f"modeld-compile {step[0]} failed; its message is above")
    return artifact


def _paint(out: Path, console: Console) -> Path:
    with _progress(console, "painting a road") as progress:
        task = progress.add_task("", total=_ROAD_FRAMES)
        return paint_road_clip(
            out, _ROAD_SEED, _ROAD_FRAMES, lambda done: progress.update(task, completed=done)
        )


def _run(
    args: argparse.Namespace,
    artifact: Path,
    clip: Path,
    answers: dict[int, Any],
    console: Console,
) -> Measurement:
    digest = open_artifact(artifact).digest
    arguments = ["--artifact", str(artifact), "--pin", digest, "--source", str(clip)]
    arguments += ["--camera", CAMERA, "--rate", str(MODEL_RUN_HZ), "--bind", args.bind]
    plan = Plan(arguments, MODEL_RUN_HZ, _DEADLINE_MS, seconds=None, log=args.out / "daemon.log")

    def keep(event: Any) -> None:
        answers[event.modelV2.frameId] = event

    console.print(f"modeld run {' '.join(arguments)}", style="dim", soft_wrap=True)
    with (
        ZmqTransport(connect=args.bind) as transport,
        _progress(console, "daemon runs at 20 Hz") as progress,
    ):
        task = progress.add_task("", total=None)
        return measure(
            plan,
            transport,
            SystemClock(),
            on_answer=keep,
            on_second=lambda _, recorder: progress.update(task, completed=recorder.answers),
        )


def _progress(console: Console, what: str) -> AbstractContextManager[Progress]:
    columns = (
        TextColumn(what),
        BarColumn(),
        TextColumn("{task.completed:.0f} frames"),
        TimeElapsedColumn(),
    )
    return open_progress(console, *columns)


def _draw(
    args: argparse.Namespace,
    clip: Path,
    answers: dict[int, Any],
    measurement: Measurement,
    truths: Mapping[int, Truth],
) -> dict[str, Path]:
    """The pictures; drawn from the clip again, so that drawing costs the daemon nothing."""
    overlay, plot = args.out / "overlay.png", args.out / "latency.png"
    results = {"overlay": overlay, "latency": plot, "log": args.out / "daemon.log"}
    # By then the network has seen seconds of road, and there is road ahead.
    ids = sorted(answers)
    chosen = ids[len(ids) * 2 // 3]
    for picture in _pictures(clip, answers, truths, chosen, 1):
        content = BytesIO()
        Image.fromarray(picture).save(content, "png")
        write_result(overlay, content.getvalue())
    if args.movie:
        results["movie"] = args.out / "overlay.mp4"
        with MovieWriter(results["movie"], MODEL_RUN_HZ) as movie:
            for picture in _pictures(clip, answers, truths, ids[0], None):
                movie.add(picture)
    recorder = measurement.recorder
    dropped = measurement.health.counters.drops
    title = f"{clip.name} at {MODEL_RUN_HZ} Hz, {dropped} frames dropped"
    plot_latency(plot, list(recorder.rows), list(recorder.samples), _DEADLINE_MS, title)
    return results


def _pictures(
    clip: Path,
    answers: dict[int, Any],
    truths: Mapping[int, Truth],
    first: int,
    count: int | None,
) -> Iterator[Pixels]:
    source = open_source(str(clip), CAMERA, SystemClock(), None, first=first, count=count)
    with closing(source) as device:
        camera = device.narrow
        view = view_of(device.recording)
        try:
            while camera is not None and (frame := camera.receive(0.0)) is not None:
                if frame.frame_id in answers:
                    scene = scene_of(answers[frame.frame_id])
                    known = truths.get(frame.frame_id)
                    lines = () if known is None else true_lines(known)
                    yield draw_overlay(frame_to_rgb(frame), scene, view, lines)
        except EndOfStreamError:
            return


if __name__ == "__main__":
    sys.exit(main())
