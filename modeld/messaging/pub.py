"""Sending messages."""

from collections.abc import Iterable, Mapping
from typing import Any

from modeld.clock import Clock
from modeld.messaging.events import find_service, new_event
from modeld.messaging.transport import Transport

_LOOK_AGAIN_S = 0.002


class PubMaster:
    """Publishers of a set of services, each under the name given."""

    def __init__(self, services: Iterable[str], transport: Transport, clock: Clock) -> None:
        self._clock = clock
        self._publishers = {name: transport.publisher(name) for name in services}

    def new_event(self, service: str, *, valid: bool = False) -> Any:
        """A builder stamped by this master's clock; see `modeld.messaging.new_event`."""
        return new_event(service, self._clock, valid=valid)

    def send(self, service: str, event: Any) -> None:
        """Send an Event builder, or bytes that hold one message. Never blocks.

        A builder is sent once: Cap'n Proto leaks what is overwritten in it.
        """
        data = event if isinstance(event, bytes) else event.to_bytes()
        self._publisher(service).send(data)

    def wait_for_subscribers(self, wanted: Mapping[str, int], timeout_s: float) -> bool:
        """Wait until each service has its number of readers; whether it has.

        A reader that connects hears nothing sent before the connection stands; this is how a
        sender makes sure that its first message is heard.
        """
        deadline_ns = self._clock.monotonic_ns() + round(timeout_s * 1e9)
        while not all(self._publisher(name).subscribers() >= n for name, n in wanted.items()):
            if self._clock.monotonic_ns() >= deadline_ns:
                return False
            self._clock.sleep(_LOOK_AGAIN_S)
        return True

    def _publisher(self, service: str) -> Any:
        if service not in self._publishers:
            find_service(service)
            raise KeyError(f"{service} is not among {', '.join(self._publishers)}")
        return self._publishers[service]
