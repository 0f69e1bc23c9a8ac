"""`modeld run`: the daemon, from an artifact and cameras to messages.

In this order: configuration, artifact (nothing is loaded from one that must not run), source,
weights and programs, self-test, first run of every kernel, READY, cameras, loop.
"""

import argparse
import dataclasses
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from modeld import selftest
from modeld.artifact import Artifact, refused
from modeld.boundary import Ended
from modeld.cameras.frame import FrameSource
from modeld.cameras.visionipc.wakeup import ignore_late_wakeups
from modeld.clock import Clock, SystemClock
from modeld.commands import options
from modeld.commands.cameras import camera_counts, camera_server, camera_sources
from modeld.config import Config, load_config
from modeld.constants import MODEL_RUN_HZ
from modeld.counts import Count
from modeld.daemon import PUBLISHED, SUBSCRIBED, Daemon, check_contract
from modeld.errors import ArtifactRefusedError, ModeldError
from modeld.executor import Executor
from modeld.health import Health, HealthTimer, Identity, State, fill_health
from modeld.messaging import MergedTransport, PubMaster, SubMaster, Transport, ZmqTransport
from modeld.notify import notifier_of
from modeld.realtime import enter_realtime
from modeld.signals import finishing_on_signals
from modeld.verdict import Reason, judge_target, verdict
from modeld.warmup import warm_up

if TYPE_CHECKING:  # files are decoded only by those who ask for it
    from modeld.replay.simulation import RecordedDevice

HEALTH = "modeldHealth"
VISIONIPC = "visionipc"
# Flags that have a meaning with one kind of source only.
_OF_CAMERAS, _OF_RECORDINGS = ("server", "prefix"), ("camera", "sidecar", "rate")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    options.add_artifact(parser, flag=True)
    parser.add_argument(
        "--source",
        default=VISIONIPC,
        metavar="SPEC",
        help="visionipc (default), a video, a folder of images, or road[:SEED]",
    )
    parser.add_argument(
        "--server", metavar="NAME", help="the camera server's name (default: camerad)"
    )
    parser.add_argument("--prefix", help="openpilot's prefix for the camera server's names")
    parser.add_argument(
        "--camera",
        metavar="WxH",
        help="frame size that a recording is given (default: the artifact's first)",
    )
    parser.add_argument("--sidecar", type=Path, metavar="TOML", help="which camera took the clip")
    parser.add_argument(
        "--rate",
        type=float,
        metavar="HZ",
        help=f"frames a second of a recording (default: {MODEL_RUN_HZ})",
    )
    parser.add_argument("--config", type=Path, metavar="TOML", help="configuration file")
    parser.add_argument(
        "--bind", metavar="ADDRESS", help="publish here instead of loopback; * is everywhere"
    )
    parser.add_argument(
        "--connect", metavar="ADDRESS", help="hear messages from here instead of loopback"
    )
    parser.add_argument(
        "--frames", type=int, metavar="N", help="end after N answered frames (default: never)"
    )


def run(args: argparse.Namespace) -> int:
    """Run until SIGTERM, SIGINT, the end of a recording, or `--frames`."""
    _check_flags(args)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="modeld: %(message)s")
    config = _configuration(args)
    if threading.current_thread() is threading.main_thread():
        ignore_late_wakeups()
    clock = SystemClock()
    notifier = notifier_of(os.environ)
    health = Health(clock, notifier)
    with (
        finishing_on_signals() as stop,
        closing(notifier),
        ZmqTransport(bind=config.messages.bind, connect=config.messages.connect) as transport,
    ):
        pub = PubMaster([HEALTH], transport, clock)
        with _telling(HealthTimer(health, partial(_publish_health, pub))):
            try:
                _serve(args, config, stop, health, transport)
            except ModeldError as error:
                _tell_failure(health, error)
                raise
            finally:
                notifier.stopping()
    answered, dropped = health.counts[Count.FRAMES], health.counts[Count.DROPS]
    log = logging.getLogger(__name__)
    log.info("%d frames answered, %d dropped", answered, dropped)
    counts = health.camera_counts()
    in_place, copied = (counts.get(c, 0) for c in (Count.FRAMES_IN_PLACE, Count.FRAMES_COPIED))
    log.info("pictures for the device: %d used in place, %d copied", in_place, copied)
    return 0


def _check_flags(args: argparse.Namespace) -> None:
    """Raise ModeldError for flags that say nothing or contradict each other."""
    if args.frames is not None and args.frames < 1:
        raise ModeldError(f"--frames {args.frames} is no number of frames; give 1 or more")
    if args.rate is not None and not 0.01 <= args.rate <= 10_000:  # also false for NaN
        raise ModeldError(f"--rate {args.rate} is no frame rate; give a number from 0.01 to 10000")
    real = args.source == VISIONIPC
    wrong = _OF_RECORDINGS if real else _OF_CAMERAS
    for flag in wrong:
        if getattr(args, flag) is not None:
            raise ModeldError(
                f"--{flag} is for {'recordings' if real else 'camera servers'}, and the frames "
                f"come from {args.source}; leave it out, or give another --source"
            )
    camera_server(args)


def _serve(
    args: argparse.Namespace,
    config: Config,
    stop: threading.Event,
    health: Health,
    network: Transport,
) -> None:
    artifact = _open_artifact(args, health)
    recording = None if args.source == VISIONIPC else _open_recording(args, artifact, health.clock)
    wire = network if recording is None else MergedTransport(recording.outlet.transport, network)
    # Before the network is loaded: a busy port is found out in no time.
    sub = SubMaster(SUBSCRIBED, wire, health.clock)
    pub = PubMaster(PUBLISHED, wire, health.clock)
    executor = _load(args, artifact, health)
    health.ready()
    looks = partial(_look, executor, sub, pub, health, config)
    # Last, when every helper thread exists: they must not inherit core and priority.
    prepare = cache(lambda: health.add_standing(*enter_realtime(config.realtime)))
    if recording is not None:
        with closing(recording):
            prepare()
            looks(recording, stop, args.frames)
            for remark in recording.remarks():
                logging.getLogger(__name__).warning("%s", remark)
        return
    left = args.frames
    for source, until in camera_sources(camera_server(args), stop, health):
        prepare()
        answered = looks(source, until, left)
        left = None if left is None else left - answered
        if left == 0 or stop.is_set():
            return
        executor.reset()


def _look(
    executor: Executor,
    sub: SubMaster,
    pub: PubMaster,
    health: Health,
    config: Config,
    source: FrameSource,
    until: Ended,
    frames: int | None,
) -> int:
    """Answer the source's frames; how many were answered."""
    health.camera_counts = partial(camera_counts, source, executor.frame_buffers)
    daemon = Daemon(executor, source, sub, pub, health.clock, health, config)
    return daemon.run(until, frames)


def _configuration(args: argparse.Namespace) -> Config:
    config = Config() if args.config is None else load_config(args.config)
    given = {key: getattr(args, key) for key in ("bind", "connect") if getattr(args, key)}
    return dataclasses.replace(config, messages=dataclasses.replace(config.messages, **given))


def _open_artifact(args: argparse.Namespace, health: Health) -> Artifact:
    artifact = options.open_trusted(args)
    pinned = options.read_pin(args) is not None or bool(args.trust)
    if not pinned:
        if Reason.UNPINNED not in args.allow:
            raise refused(
                Reason.UNPINNED,
                f"neither --pin nor --trust says which artifact {args.artifact} must be; pass the "
                f"identity that the build printed, or accept any with --allow {Reason.UNPINNED}",
            )
        health.add_standing("the artifact is not pinned")
    health.identity = Identity(artifact.digest, artifact.manifest.name)
    check_contract(artifact.manifest.contract)
    return artifact


def _open_recording(args: argparse.Namespace, artifact: Artifact, clock: Clock) -> "RecordedDevice":
    from modeld.replay.route import is_route
    from modeld.replay.sources import open_source

    if is_route(Path(args.source)):
        # Its messages and frames live on the log's own clock, the daemon's sockets on this one.
        raise ModeldError(f"{args.source} is a recorded route; use `modeld replay {args.source}`")
    built_for = artifact.manifest.contract.cameras
    camera = args.camera or (built_for[0].name if built_for else "none")
    if camera not in [known.name for known in built_for]:
        names = ", ".join(known.name for known in built_for) or "none"
        raise ModeldError(
            f"the artifact was not built for camera {camera}, only for {names}; choose one of "
            f"these or build it with --camera {camera}"
        )
    rate_hz = MODEL_RUN_HZ if args.rate is None else args.rate
    return open_source(args.source, camera, clock, rate_hz, sidecar=args.sidecar)


def _load(args: argparse.Namespace, artifact: Artifact, health: Health) -> Executor:
    executor = options.load_executor(args, artifact)
    cache = executor.cache
    findings = judge_target(artifact.manifest, executor.info)
    health.add_standing(*(finding.message for finding in findings))
    health.identity = Identity(
        artifact.digest,
        artifact.manifest.name,
        verdict(findings, args.allow) if not health.standing else "degraded",
        health.standing,
    )
    health.enter(State.WARMING, "self-test and first runs")
    result = selftest.check(executor, artifact)
    warm_up(executor)
    executor.frame_buffers.forget_counts()
    executor.keep_programs()
    for failure in cache.failures:
        logging.getLogger(__name__).warning("compiled programs are not kept: %s", failure)
    health.counts[Count.CACHE_HITS] = cache.hits
    health.counts[Count.CACHE_MISSES] = cache.misses
    logging.getLogger(__name__).info(
        "%s %s on %s: self-test %s, %d programs from cache, %d compiled",
        artifact.manifest.name,
        artifact.digest[:19],
        executor.info.device,
        "exact" if result.exact else "within tolerance",
        cache.hits,
        cache.misses,
    )
    return executor


def _publish_health(pub: PubMaster, health: Health) -> None:
    event = pub.new_event(HEALTH, valid=True)
    fill_health(event.modeldHealth, health, health.take_turns(), health.clock.monotonic_ns())
    pub.send(HEALTH, event)


@contextmanager
def _telling(timer: HealthTimer) -> Iterator[None]:
    timer.start()
    try:
        yield
    finally:
        timer.stop()


def _tell_failure(health: Health, error: ModeldError) -> None:
    """Let subscribers and `systemctl status` know why this is the last they hear."""
    if isinstance(error, ArtifactRefusedError):
        health.identity = dataclasses.replace(
            health.identity, verdict="refuse", reasons=(str(error),)
        )
    health.state, health.reason = State.STALLED, str(error)
    health.notifier.status(f"failed: {error}")
