"""How the daemon fares: state, counters, stage times; told to systemd and to subscribers.

The loop reports here; a timer thread (`HealthTimer`) publishes, so that health keeps flowing when
frames stop. The watchdog is armed by the first frames, so that a device may wait for its cameras,
and fed by answered turns and by nothing else.
"""

import enum
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modeld.clock import Clock
from modeld.constants import DT_MODEL
from modeld.counts import Count
from modeld.notify import Notifier

_LOG = logging.getLogger(__name__)

# Without an answered frame for this long the daemon is stalled, whatever the reason.
STALLED_AFTER_NS = 1_000_000_000
DEADLINE_NS = round(DT_MODEL * 1e9)
BEAT_S = 1.0
_BOUNDARIES = ("received", "synced", "executed", "parsed", "published")
_DEVICE_STAGES = ("upload", "warp", "model", "read")
# Turns kept between two beats; at 20 Hz a beat holds 20.
_MAX_TURNS = 128
# While loading, the service manager is asked for this much more at every beat, until the limit:
# a cold compile on a phone GPU takes minutes, a hung driver takes for ever.
_START_EXTENSION_S = 30.0
START_LIMIT_S = 900.0


class State(enum.StrEnum):
    """Where the daemon is; values are the members of ModeldHealth.State."""

    LOADING = "loading"
    WARMING = "warming"
    RUNNING = "running"
    DEGRADED = "degraded"
    STALLED = "stalled"


@dataclass(frozen=True, slots=True)
class TurnTimes:
    """A turn's boundaries (ns on the clock) and the device's own stage durations (ns).

    `received`: main frame in hand; `synced`: pair complete; `executed`: outputs on the host;
    `parsed`: guarded, parsed, action chosen; `published`: all three messages sent.
    """

    frame_id: int
    timestamp_eof: int
    received: int
    synced: int
    executed: int
    parsed: int
    published: int
    upload: int
    warp: int
    model: int
    read: int

    def stages(self) -> dict[str, int]:
        """Durations in nanoseconds, in order; `host` is the executor call beyond the device."""
        device = {name: getattr(self, name) for name in _DEVICE_STAGES}
        return {
            "sync": self.synced - self.received,
            **device,
            "host": max(0, self.executed - self.synced - sum(device.values())),
            "parse": self.parsed - self.executed,
            "publish": self.published - self.parsed,
            "turn": self.published - self.synced,
        }


@dataclass(frozen=True, slots=True)
class Identity:
    """What is loaded: `digest` is `sha256:…`, `verdict` ok, degraded, refuse or unknown."""

    digest: str = ""
    name: str = ""
    verdict: str = "unknown"
    reasons: tuple[str, ...] = ()


@dataclass
class Health:
    """Written by the loop, read by the timer thread; each field is replaced, never half-written."""

    clock: Clock
    notifier: Notifier
    identity: Identity = field(default_factory=Identity)
    state: State = State.LOADING
    reason: str = "loading the artifact"
    counts: Counter[Count] = field(default_factory=Counter)
    last_turn: TurnTimes | None = None
    # Unsound messages that the subscriber refused.
    rejected_on_wire: int = 0
    # What keeps the daemon from being all right for as long as it runs.
    standing: tuple[str, ...] = ()
    # What the camera streams counted themselves, to be added to ours.
    camera_counts: Callable[[], Mapping[Count, int]] = dict

    def __post_init__(self) -> None:
        self.started_ns = self.clock.monotonic_ns()
        self._progress_ns = self.started_ns
        self._turns: deque[TurnTimes] = deque(maxlen=_MAX_TURNS)
        self._named: set[tuple[Count, str]] = set()
        self._troubled = False
        self._armed = False

    def enter(self, state: State, reason: str = "") -> None:
        """Change state; `reason` is one line when the state is not `running`."""
        if (state, reason) != (self.state, self.reason):
            _LOG.info("%s%s", state, f": {reason}" if reason else "")
        self.state, self.reason = state, reason

    def ready(self) -> None:
        """Warm and tested: from here on only answered turns keep the daemon alive."""
        self._progress_ns = self.clock.monotonic_ns()
        self._enter_normal()
        self.notifier.ready("running, waiting for frames")
        self.notifier.disarm_watchdog()

    def frames_came(self) -> None:
        """A pair of frames is in hand; the first one arms the watchdog."""
        if not self._armed:
            self._armed = True
            self.notifier.arm_watchdog()

    def add_standing(self, *reasons: str) -> None:
        """Name what is not as it should be for as long as the daemon runs; each is logged."""
        for reason in reasons:
            _LOG.warning("degraded: %s", reason)
        self.standing += reasons
        if reasons and self.state is State.RUNNING:
            self._enter_normal()

    def trouble(self, reason: str) -> None:
        """The last answer was not to be believed."""
        self._troubled = True
        self.state, self.reason = State.DEGRADED, reason

    def recovered(self) -> None:
        """The last answer was sound."""
        if self._troubled:
            self._troubled = False
            self._enter_normal()

    def _enter_normal(self) -> None:
        self.enter(State.DEGRADED if self.standing else State.RUNNING, "; ".join(self.standing))

    def report(self, count: Count, message: str, about: str = "") -> None:
        """Count a fault; the first of its kind and subject is also logged."""
        self.counts[count] += 1
        if (count, about) not in self._named:
            self._named.add((count, about))
            _LOG.warning("%s (further ones are counted as %s)", message, count)

    def answered(self, times: TurnTimes) -> None:
        """A turn ended with a sound answer published: feed the watchdog."""
        self.notifier.watchdog()
        self.last_turn = times
        self._progress_ns = times.published
        self._turns.append(times)
        self.counts[Count.FRAMES] += 1
        if times.published - times.synced > DEADLINE_NS:
            self.counts[Count.DEADLINE_MISSES] += 1

    def current(self, now: int) -> tuple[State, str]:
        """State and reason at `now`: a running daemon without answers for 1 s is stalled."""
        silent = now - self._progress_ns
        if self.state in (State.RUNNING, State.DEGRADED) and silent > STALLED_AFTER_NS:
            return State.STALLED, f"no frame answered for {silent / 1e9:.1f} s"
        return self.state, self.reason

    def take_turns(self) -> list[TurnTimes]:
        """The turns since the last call, oldest first."""
        turns = []
        while self._turns:
            turns.append(self._turns.popleft())
        return turns


def fill_health(message: Any, health: Health, turns: Sequence[TurnTimes], now: int) -> None:
    """Fill a ModeldHealth builder with the state at `now` and the `turns` since the last one."""
    identity = health.identity
    message.artifactId, message.artifactName = identity.digest, identity.name
    message.verdict, message.verdictReasons = identity.verdict, list(identity.reasons)
    message.state, message.stateReason = health.current(now)
    counters = message.counters
    for count in Count:
        setattr(counters, count, health.counts[count])
    counters.rejectedMessages += health.rejected_on_wire
    for count, more in health.camera_counts().items():
        setattr(counters, count, health.counts[count] + more)
    message.uptimeNs = now - health.started_ns
    last = health.last_turn
    if last is not None:
        message.lastFrameId, message.lastFrameEof = last.frame_id, last.timestamp_eof
        message.lastFrameAgeNs = max(0, now - last.timestamp_eof)
        stages = last.stages()
        for builder, (name, duration) in zip(
            message.init("stages", len(stages)), stages.items(), strict=True
        ):
            builder.name, builder.durationNs = name, duration
    for builder, turn in zip(message.init("turns", len(turns)), turns, strict=True):
        builder.frameId, builder.timestampEof = turn.frame_id, turn.timestamp_eof
        for name in _BOUNDARIES + _DEVICE_STAGES:
            setattr(builder, name, getattr(turn, name))


class HealthTimer:
    """Beats once a second in a thread of its own: publishes health, keeps start-up alive.

    `publish` is called with the filled `Health`; it is used from the timer thread only.
    """

    def __init__(self, health: Health, publish: Callable[[Health], None]) -> None:
        self._health = health
        self._publish = publish
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    def beat(self) -> None:
        """Do what a second's passing asks for."""
        health, now = self._health, self._health.clock.monotonic_ns()
        state, reason = health.current(now)
        if state in (State.LOADING, State.WARMING):
            if now - health.started_ns < START_LIMIT_S * 1e9:
                health.notifier.extend_start(_START_EXTENSION_S)
            health.notifier.status(f"{state}: {reason}")
        else:
            frames, drops = health.counts[Count.FRAMES], health.counts[Count.DROPS]
            text = f"{state}, {frames} frames answered, {drops} dropped"
            health.notifier.status(f"{text}: {reason}" if reason else text)
        self._publish(health)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after a last beat, so that what happened last is told."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(BEAT_S):
            self.beat()
        self.beat()
