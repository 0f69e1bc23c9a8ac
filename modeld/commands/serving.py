"""`modeld replay --serve`: a recording for a daemon that runs elsewhere."""

import argparse
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

from rich.console import Console

from modeld.cameras.visionipc.paths import VisionIpcConfig
from modeld.cameras.visionipc.server import VisionIpcServer
from modeld.clock import SystemClock
from modeld.console import with_progress
from modeld.daemon import PUBLISHED
from modeld.errors import ModeldError
from modeld.messaging import ZmqTransport
from modeld.messaging.zmq_transport import LOOPBACK
from modeld.replay import marks
from modeld.replay.log import LogWriter
from modeld.replay.serve import ServedTurn, Serving
from modeld.replay.simulation import RecordedDevice
from modeld.replay.wire import Heard, Listener, Speaker
from modeld.rig.latency import Histogram

# Flags of the daemon inside `modeld replay`, and flags that only --serve has.
_INSIDE = ("artifact", "pin", "pin_file", "trust", "allow", "device", "cache", "config", "overlay")
_ELSEWHERE = ("server", "prefix", "bind", "connect", "patience")
_PATIENCE_S = 5.0


def add_serving(parser: argparse.ArgumentParser) -> None:
    """Declare `--serve` and what belongs to it."""
    group = parser.add_argument_group("for a daemon in another process, ours or openpilot's")
    group.add_argument(
        "--serve",
        action="store_true",
        help="be the camera server and the other processes of the device; needs no --artifact",
    )
    group.add_argument("--server", metavar="NAME", help="the server's name (default: camerad)")
    group.add_argument("--prefix", help="openpilot's prefix for the camera server's names")
    group.add_argument("--bind", metavar="ADDRESS", help="publish here instead of loopback")
    group.add_argument("--connect", metavar="ADDRESS", help="hear the daemon from here")
    group.add_argument(
        "--patience",
        type=float,
        metavar="S",
        help=f"in lock-step, go on when a frame was not answered for so long ({_PATIENCE_S:g})",
    )


def check_flags(args: argparse.Namespace) -> None:
    """Raise ModeldError for flags that have no meaning together."""
    if args.serve:
        if wrong := _given(args, _INSIDE):
            raise ModeldError(
                f"{wrong} belongs to a daemon, and with --serve that is another process; leave it "
                "out, or leave out --serve"
            )
        if args.patience is not None and args.speed not in ("lockstep", "max"):
            raise ModeldError(f"at --speed {args.speed} nothing is waited for; drop --patience")
        _cameras(args)
        _check_host(args)
        if args.patience is not None and not 0 < args.patience < float("inf"):
            raise ModeldError(f"--patience {args.patience} is no time; give seconds above 0")
    elif wrong := _given(args, _ELSEWHERE):
        raise ModeldError(f"{wrong} has a meaning only with --serve")
    elif args.artifact is None:
        raise ModeldError("give --artifact DIR, or --serve for a daemon in another process")


@dataclass(frozen=True, slots=True)
class Served:
    """How many frames were served, which were answered, and how many were waited for in vain."""

    frames: int
    answered: frozenset[int]
    unanswered: int


def serve(
    args: argparse.Namespace, console: Console, device: RecordedDevice, stop: threading.Event
) -> Served:
    """Serve the device as the flags say, until its end or `stop`. Raises as `Serving` does."""
    clock, config = SystemClock(), _cameras(args)
    bind, connect = args.bind or LOOPBACK, args.connect or LOOPBACK
    lockstep = args.speed in ("lockstep", "max")
    patience_s = (args.patience or _PATIENCE_S) if lockstep else None
    with ExitStack() as stack:
        network = stack.enter_context(ZmqTransport(bind=bind, connect=connect))
        heard_at = LOOPBACK if bind == "*" else bind
        echo = stack.enter_context(ZmqTransport(connect=heard_at))
        speaker = Speaker(device.services, network, echo, clock)
        server = stack.enter_context(closing(VisionIpcServer(config)))
        log = stack.enter_context(LogWriter(args.out)) if args.out else None
        listen = partial(Listener, network, clock)
        serving = Serving(device, server, speaker, listen, clock, stop, patience_s)
        console.print(f"serving {args.source} at {config.socket_path}", soft_wrap=True)
        console.print(
            f"waiting for a daemon to take the cameras: start `{_daemon(args)}`", soft_wrap=True
        )
        tally = _Tally(console, log)
        tally.write(marks.opening(device.recording, device.clock))
        for turn in with_progress(console, "serving", serving.turns(), device.recording.total):
            tally.add(turn, patience_s)
        tally.hear(serving.last_words())
        tally.write(marks.closing(device.clock))
    tally.tell()
    return Served(tally.served, frozenset(tally.answered), tally.unanswered)


def _cameras(args: argparse.Namespace) -> VisionIpcConfig:
    return VisionIpcConfig(args.server or "camerad", args.prefix or "")


def _check_host(args: argparse.Namespace) -> None:
    """Raise ModeldError for a --connect that could never be listened to."""
    with ZmqTransport(connect=args.connect or LOOPBACK) as trial:
        trial.inbox(PUBLISHED)


def _daemon(args: argparse.Namespace) -> str:
    """The command that belongs to these flags; our loopback is its loopback."""
    words = ["modeld run --artifact DIR --pin sha256:…"]
    words += [f"--{flag} {v}" for flag in ("server", "prefix") if (v := getattr(args, flag))]
    if args.connect:
        words.append(f"--bind {args.connect}")
    if args.bind and args.bind != "*":
        words.append(f"--connect {args.bind}")
    return " ".join(words)


class _Tally:
    """What was served and answered, into the log and onto the console."""

    def __init__(self, console: Console, log: LogWriter | None) -> None:
        self.served = 0
        self.answered: set[int] = set()
        self.unanswered = 0
        self._console = console
        self._log = log
        self._times = Histogram()

    def write(self, messages: Iterable[bytes]) -> None:
        """Into the log, where one is asked for."""
        if self._log is not None:
            for message in messages:
                self._log.write(message)

    def add(self, turn: ServedTurn, patience_s: float | None) -> None:
        """Take in a turn; an answer waited for in vain is told at once."""
        self.served += 1
        self.write(turn.messages)
        self.hear(turn.heard)
        if turn.answered is False:
            self.unanswered += 1
            self._console.print(
                f"[red]frame {turn.frame_id} was not answered within {patience_s:g} s[/]",
                highlight=False,
            )

    def hear(self, heard: Heard) -> None:
        """Take in answers."""
        self.write(heard.answers)
        self.answered.update(heard.frames)
        for latency in heard.latencies:
            self._times.record(latency)

    def tell(self) -> None:
        """One line on how it went."""
        times = self._times.summary_ms()
        shown = ", ".join(f"{name} {times[name]:.1f}" for name in ("p50", "p99", "max") if times)
        self._console.print(
            f"{self.served} frames served, {len(self.answered)} answered; "
            f"frame to modelV2 {shown or '-'} ms"
        )


def _given(args: argparse.Namespace, names: Sequence[str]) -> str:
    flags = [f"--{name.replace('_', '-')}" for name in names if getattr(args, name)]
    return ", ".join(flags)
