"""One measurement: a daemon process under a camera's rhythm, heard from outside."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from modeld.clock import Clock
from modeld.errors import ModeldError
from modeld.messaging import Transport
from modeld.rig.environment import environment
from modeld.rig.listener import Listener
from modeld.rig.process import DaemonProcess
from modeld.rig.recorder import Recorder

_NS = 1_000_000_000
_MIB = 1 << 20
# A cold compile on a phone's GPU takes minutes.
START_TIMEOUT_S = 300.0
_LISTEN_S = 0.1
# After its end a daemon's last health message may still be on its way.
_TAIL_TURNS = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. `arguments` are `modeld run`'s; `seconds` None is to the source's end."""

    arguments: Sequence[str]
    rate_hz: float
    deadline_ms: float
    seconds: float | None
    log: Path


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured: the recorder's statistics, and the process from outside.

    `memory` are (seconds since the first answer, resident bytes), once a second.
    """

    recorder: Recorder
    health: Any
    startup_s: float
    seconds: float
    cpu_seconds: float
    memory: Sequence[tuple[float, int]]
    environment: dict[str, Any]


def measure(
    plan: Plan,
    transport: Transport,
    clock: Clock,
    on_answer: Callable[[Any], None] = lambda event: None,
    on_second: Callable[[float, Recorder], None] = lambda seconds, recorder: None,
    stop: threading.Event | None = None,
) -> Measurement:
    """Run the plan, or as much of it as there is when `stop` is set.

    `on_answer` sees each modelV2 `Event`, `on_second` the run once a second.

    Raises ModeldError when the daemon fails or gives no answer within `START_TIMEOUT_S`.
    """
    period_ns = round(_NS / plan.rate_hz)
    recorder = Recorder(period_ns, round(plan.deadline_ms * 1e6))
    listener = Listener(transport, clock, recorder, on_answer)
    conditions = environment()
    with DaemonProcess(plan.arguments, plan.log) as daemon:
        stopped = stop or threading.Event()
        first = _wait_for_answer(daemon, listener, clock, stopped)
        memory: list[tuple[float, int]] = []
        cpu_before, cpu_after = daemon.cpu_seconds() or 0.0, 0.0
        elapsed = 0.0
        running = True
        while running and not stopped.is_set() and (plan.seconds is None or elapsed < plan.seconds):
            listener.listen(_LISTEN_S)
            elapsed = (clock.monotonic_ns() - first) / _NS
            running = daemon.running()
            if running and len(memory) <= elapsed and (resident := daemon.resident_bytes()):
                memory.append((elapsed, resident))
                cpu_after = daemon.cpu_seconds() or cpu_after
                on_second(elapsed, recorder)
        if running:
            recorder.finish(clock.monotonic_ns())
        daemon.stop()
        # Nobody listened while it stopped, so an answer would only seem late by now.
        for _ in range(_TAIL_TURNS):
            clock.sleep(_LISTEN_S)
            listener.listen_to_health()
    published = listener.first_published or first
    return Measurement(
        recorder,
        listener.health,
        startup_s=(min(first, published) - daemon.started) / _NS,
        seconds=elapsed,
        cpu_seconds=max(0.0, cpu_after - cpu_before),
        memory=memory,
        environment={"before": conditions, "after": environment()},
    )


def memory_growth_mib(memory: Sequence[tuple[float, int]]) -> float | None:
    """MiB that resident memory grew from the first minute (or sixth, if shorter) to the end.

    Medians of five seconds each; None when the run was too short to tell.
    """
    if len(memory) < 12:
        return None
    end = memory[-1][0]
    settled = min(60.0, end / 6)
    begin = [resident for seconds, resident in memory if seconds >= settled][:5]
    last = [resident for _, resident in memory[-5:]]
    return (median(last) - median(begin)) / _MIB


def _wait_for_answer(
    daemon: DaemonProcess, listener: Listener, clock: Clock, stop: threading.Event
) -> int:
    while listener.first_answer is None:
        if stop.is_set():
            raise ModeldError("stopped before the daemon's first answer; nothing was measured")
        if not daemon.running():
            raise ModeldError("the daemon ended without an answer; is the source empty?")
        if clock.monotonic_ns() - daemon.started > START_TIMEOUT_S * _NS:
            raise ModeldError(f"no modelV2 within {START_TIMEOUT_S:.0f} s of the daemon's start")
        listener.listen(_LISTEN_S)
    return listener.first_answer
