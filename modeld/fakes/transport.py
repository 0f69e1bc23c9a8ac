"""A wire inside one process: what is published is there to receive, in order, at once."""

from collections import deque
from collections.abc import Iterable, Set
from types import TracebackType
from typing import Self

from modeld.messaging.events import find_service


class MemoryTransport:
    """Connects publishers and inboxes made from it; a service's names are one place."""

    def __init__(self) -> None:
        self._inboxes: dict[str, list[deque[bytes]]] = {}

    def publisher(self, service: str) -> "MemoryPublisher":
        """A publisher to every inbox of the service, present and future."""
        return MemoryPublisher(self._inboxes.setdefault(find_service(service).name, []))

    def inbox(self, services: Iterable[str], *, conflate: bool = True) -> "MemoryInbox":
        """An inbox that hears what is sent from now on."""
        queues = {}
        for service in services:
            queues[service] = deque[bytes](maxlen=1 if conflate else None)
            self._inboxes.setdefault(find_service(service).name, []).append(queues[service])
        return MemoryInbox(queues)

    def close(self) -> None:
        """Disconnect every publisher."""
        for queues in self._inboxes.values():
            queues.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class MemoryPublisher:
    """See `modeld.messaging.Publisher`."""

    def __init__(self, queues: list[deque[bytes]]) -> None:
        self._queues = queues

    def send(self, data: bytes) -> None:
        """Append to every inbox."""
        for queue in self._queues:
            queue.append(data)

    def subscribers(self) -> int:
        """Inboxes of the service."""
        return len(self._queues)


class MemoryInbox:
    """See `modeld.messaging.Inbox`."""

    def __init__(self, queues: dict[str, deque[bytes]]) -> None:
        self._queues = queues

    def wait(self, timeout_s: float) -> Set[str]:
        """What is there; nothing can arrive while the one thread waits."""
        return {service for service, queue in self._queues.items() if queue}

    def receive(self, service: str) -> bytes | None:
        """The oldest message still there, or None."""
        queue = self._queues[service]
        return queue.popleft() if queue else None
