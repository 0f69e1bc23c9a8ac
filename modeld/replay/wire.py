"""Speaking to a daemon in another process and hearing it, a frame at a time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from modeld.clock import Clock
from modeld.daemon import PUBLISHED
from modeld.messaging import MessageError, Transport, decode_event, member_name

# So many of a service at once: a daemon looks at the newest only, and of what comes on top of a
# full queue just that would be lost.
_NEWEST = 20
# A message is in the daemon's queue about when it is back in ours.
_SETTLE_S = 0.002
# Frames without an answer whose times are remembered.
_MOST_EXPECTED = 64


class Speaker:
    """Publishes `services` on `network`; `echo` must hear what `network` sends."""

    def __init__(
        self, services: Sequence[str], network: Transport, echo: Transport, clock: Clock
    ) -> None:
        self._clock = clock
        self._publishers = {name: network.publisher(name) for name in services}
        self._echo = echo.inbox(services, conflate=False)

    def listened_to(self) -> bool:
        """Whether every service has a reader besides our own echo."""
        return all(publisher.subscribers() > 1 for publisher in self._publishers.values())

    def say(self, messages: Sequence[tuple[str, bytes]], wait_s: float = 0.0) -> None:
        """Send (service, message) in this order, then wait until they are with their readers.

        That is at most `wait_s`. The oldest of a long queue are left out.
        """
        later = Counter(service for service, _ in messages)
        sent: Counter[str] = Counter()
        for service, data in messages:
            later[service] -= 1
            if later[service] < _NEWEST:
                self._publishers[service].send(data)
                sent[service] += 1
        deadline = self._clock.monotonic_ns() + round(wait_s * 1e9)
        while self._unheard(sent) and (ahead := deadline - self._clock.monotonic_ns()) > 0:
            self._echo.wait(ahead / 1e9)
        if wait_s:
            self._clock.sleep(_SETTLE_S)

    def _unheard(self, sent: Counter[str]) -> bool:
        for service in sent:
            while self._echo.receive(service) is not None:
                sent[service] -= 1
        return any(count > 0 for count in sent.values())


@dataclass(frozen=True, slots=True)
class Heard:
    """Answers in order of arrival; `latencies` are ns from a frame's announcement to its modelV2.

    `frames` are the ids of the latter, in the same order.
    """

    answers: tuple[bytes, ...]
    frames: tuple[int, ...]
    latencies: tuple[int, ...]


class Listener:
    """Hears a daemon's answers on `network`, from its construction on."""

    def __init__(self, network: Transport, clock: Clock) -> None:
        self._clock = clock
        self._inbox = network.inbox(PUBLISHED, conflate=False)
        self._answers: list[bytes] = []
        # Frame id → how long its modelV2 took.
        self._answered: dict[int, int] = {}
        self._heard: set[tuple[str, int]] = set()
        # Frame id → when it was announced; answered ones leave.
        self._expected: dict[int, int] = {}

    def expect(self, frame_id: int) -> None:
        """A frame is about to be announced."""
        self._heard.clear()
        if len(self._expected) == _MOST_EXPECTED:
            del self._expected[next(iter(self._expected))]
        self._expected[frame_id] = self._clock.monotonic_ns()

    def wait(self, service: str, frame_id: int, timeout_s: float) -> bool:
        """Wait for the message of `service` about a frame; whether it was heard."""
        deadline = self._clock.monotonic_ns() + round(timeout_s * 1e9)
        self.listen()
        while (service, frame_id) not in self._heard:
            ahead = deadline - self._clock.monotonic_ns()
            if ahead <= 0:
                return False
            self._inbox.wait(ahead / 1e9)
            self.listen()
        return True

    def listen(self) -> None:
        """Take in what has come."""
        for service in PUBLISHED:
            while (data := self._inbox.receive(service)) is not None:
                self._take_in(service, data)

    def take(self) -> Heard:
        """What was heard since the last call."""
        self.listen()
        heard = Heard(tuple(self._answers), tuple(self._answered), tuple(self._answered.values()))
        self._answers, self._answered = [], {}
        return heard

    def _take_in(self, service: str, data: bytes) -> None:
        try:
            event = decode_event(data)
        except MessageError:
            return  # anybody can connect; what is no message is no answer
        if member_name(event) != service:
            return
        frame_id = getattr(event, service).frameId
        self._answers.append(data)
        self._heard.add((service, frame_id))
        if service == PUBLISHED[0] and frame_id in self._expected:
            announced = self._expected.pop(frame_id)
            self._answered[frame_id] = self._clock.monotonic_ns() - announced
