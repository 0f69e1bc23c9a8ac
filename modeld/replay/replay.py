"""Replaying a recording through the daemon itself: its loop, its messages, its checks.

Nothing here decides anything that the daemon decides; recording and daemon share one thread, so
that in lock-step every frame is answered before the next one exists.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from modeld.boundary import FrameExecutor
from modeld.cameras.frame import EndOfStreamError, Frame
from modeld.config import Config
from modeld.daemon import PUBLISHED, SUBSCRIBED, Daemon
from modeld.health import Health, TurnTimes
from modeld.messaging import Inbox, PubMaster, SubMaster
from modeld.notify import Notifier
from modeld.replay import marks
from modeld.replay.log import event_of
from modeld.replay.simulation import RecordedDevice


@dataclass(frozen=True, slots=True)
class ReplayedTurn:
    """One answered frame, and all messages since the last turn.

    `messages` are the device's in order of their time, then the daemon's, which are the last
    `answers` of them: in lock-step always the same order, however long the answer took. `times`
    is None when the answer was not sound. `frame` is valid until the next turn.
    """

    frame: Frame
    messages: tuple[bytes, ...]
    answers: int
    times: TurnTimes | None

    @property
    def answer(self) -> Any:
        """The frame's modelV2 `Event`."""
        return event_of(self.messages[-self.answers])


class Replay:
    """The daemon on a simulated device. Raises ModeldError as `Daemon` does."""

    def __init__(self, executor: FrameExecutor, device: RecordedDevice, config: Config) -> None:
        transport, clock = device.outlet.transport, device.clock
        self.health = Health(clock, Notifier(None))
        self._device = device
        self._daemon = Daemon(
            executor,
            device,
            SubMaster(SUBSCRIBED, transport, clock),
            PubMaster(PUBLISHED, transport, clock),
            clock,
            self.health,
            config,
        )
        device.outlet.record()
        self._answers = transport.inbox(PUBLISHED, conflate=False)

    def turns(self, stop: threading.Event | None = None) -> Iterator[ReplayedTurn]:
        """Play to the end, or until `stop` is set, giving each turn that was answered.

        Raises ModeldError when the recording or the device fails midway.
        """
        try:
            while stop is None or not stop.is_set():
                if self._daemon.turn():
                    yield self._turn()
        except EndOfStreamError:
            return

    def opening(self) -> tuple[bytes, ...]:
        """What a log begins with."""
        return marks.opening(self._device.recording, self._device.clock)

    def closing(self) -> tuple[bytes, ...]:
        """What a log ends with."""
        return marks.closing(self._device.clock)

    def _turn(self) -> ReplayedTurn:
        frame = self._device.last_frame
        if frame is None:
            raise RuntimeError("the daemon answered before the device gave a frame")
        read = self._device.outlet.take()
        answers = list(_drain(self._answers, PUBLISHED))
        turns = self.health.take_turns()
        times = turns[-1] if turns and turns[-1].frame_id == frame.frame_id else None
        messages = (*(data for _, data in read), *answers)
        return ReplayedTurn(frame, messages, len(answers), times)


def _drain(inbox: Inbox, services: Sequence[str]) -> Iterator[bytes]:
    for service in services:
        while (data := inbox.receive(service)) is not None:
            yield data
