"""Listening to a daemon over its sockets, stamping each message as it comes."""

from collections.abc import Callable
from typing import Any

from modeld.clock import Clock
from modeld.messaging import Transport, decode_event
from modeld.rig.latency import Answer
from modeld.rig.recorder import Recorder, turns_of

_MODEL, _HEALTH = "modelV2", "modeldHealth"


class Listener:
    """Feeds a recorder from modelV2 and modeldHealth. Messages that are not sound end the run.

    `on_answer` sees every modelV2 `Event`, `health` is the newest ModeldHealth or None.
    `first_answer` is when the first modelV2 came, `first_published` when the daemon says that it
    sent the first one: a subscriber misses what is sent while it still connects. Both in ns.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        recorder: Recorder,
        on_answer: Callable[[Any], None] = lambda event: None,
    ) -> None:
        self._inbox = transport.inbox((_MODEL, _HEALTH), conflate=False)
        self._clock = clock
        self._recorder = recorder
        self._on_answer = on_answer
        self.health: Any = None
        self.first_answer: int | None = None
        self.first_published: int | None = None

    def listen(self, timeout_s: float) -> None:
        """Take in what is there, waiting at most `timeout_s` for the first of it."""
        self._inbox.wait(timeout_s)
        self._take_answers()
        self.listen_to_health()

    def listen_to_health(self) -> None:
        """Take in what the daemon tells of itself, leaving answers alone."""
        while (data := self._inbox.receive(_HEALTH)) is not None:
            self.health = decode_event(data).modeldHealth
            for times in turns_of(self.health):
                if self.first_published is None:
                    self.first_published = times.published
                self._recorder.turn(times)

    def _take_answers(self) -> None:
        while (data := self._inbox.receive(_MODEL)) is not None:
            now = self._clock.monotonic_ns()
            if self.first_answer is None:
                self.first_answer = now
            event = decode_event(data)
            model = event.modelV2
            self._recorder.answered(Answer(model.frameId, model.timestampEof, now), event.valid)
            self._on_answer(event)
