"""Replaying a recording through the daemon itself: its loop, its messages, its checks.

Nothing here decides anything that the daemon decides; recording and daemon share one thread, so
that in lock-step every frame is answered before the next one exists.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import msgschema
from modeld.boundary import FrameExecutor
from modeld.cameras.frame import EndOfStreamError, Frame
from modeld.config import Config
from modeld.daemon import PUBLISHED, SUBSCRIBED, Daemon
from modeld.health import Health, TurnTimes
from modeld.messaging import Inbox, MessageError, PubMaster, SubMaster, decode_event
from modeld.notify import Notifier
from modeld.replay.simulation import RecordedDevice


@dataclass(frozen=True, slots=True)
class ReplayedTurn:
    """One answered frame: the frame, its modelV2 `Event`, and all messages since the last turn.

    `messages` are the device's in order of their time, then the daemon's: in lock-step always the
    same order, however long the answer took. `times` is None when the answer was not sound.
    `frame` is valid until the next turn.
    """

    frame: Frame
    answer: Any
    messages: tuple[bytes, ...]
    times: TurnTimes | None


class Replay:
    """The daemon on a simulated device. Raises ModeldError as `Daemon` does."""

    def __init__(self, executor: FrameExecutor, device: RecordedDevice, config: Config) -> None:
        transport, clock = device.transport, device.clock
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
        self._tape = transport.inbox((*device.services, *PUBLISHED), conflate=False)

    def turns(self) -> Iterator[ReplayedTurn]:
        """Play to the end, giving each turn that was answered.

        Raises ModeldError when the recording or the device fails midway.
        """
        try:
            while True:
                if self._daemon.turn():
                    yield self._turn()
        except EndOfStreamError:
            return

    def opening(self) -> tuple[bytes, ...]:
        """What a log begins with: what the device is, and the start of the route."""
        event = self._mark()
        device = event.init("initData")
        device.deviceType = self._device.recording.profile.device_type
        device.version = "modeld replay"
        return event.to_bytes(), self._sentinel("startOfRoute")

    def closing(self) -> tuple[bytes, ...]:
        """What a log ends with."""
        return (self._sentinel("endOfRoute"),)

    def _sentinel(self, kind: str) -> bytes:
        event = self._mark()
        event.init("sentinel").type = kind
        data: bytes = event.to_bytes()
        return data

    def _mark(self) -> Any:
        # Marks exist in logs only, so they are no services.
        return msgschema.load().Event.new_message(
            logMonoTime=self._device.clock.monotonic_ns(), valid=True
        )

    def _turn(self) -> ReplayedTurn:
        frame = self._device.last_frame
        if frame is None:
            raise RuntimeError("the daemon answered before the device gave a frame")
        read = sorted(_timed(_drain(self._tape, self._device.services)), key=itemgetter(0))
        answers = list(_drain(self._tape, PUBLISHED))
        answer = decode_event(answers[0])
        turns = self.health.take_turns()
        times = turns[-1] if turns and turns[-1].frame_id == frame.frame_id else None
        messages = (*(data for _, data in read), *answers)
        return ReplayedTurn(frame, answer, messages, times)


def _drain(inbox: Inbox, services: tuple[str, ...]) -> Iterator[bytes]:
    for service in services:
        while (data := inbox.receive(service)) is not None:
            yield data


def _timed(messages: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Messages with their times; those that the daemon refuses too are left out."""
    for data in messages:
        try:
            yield decode_event(data).logMonoTime, data
        except MessageError:
            continue
