"""What a wire must do; ZeroMQ, memory and their union each do it."""

from collections.abc import Iterable, Set
from types import TracebackType
from typing import Protocol, Self


class Publisher(Protocol):
    """One service's outgoing side."""

    def send(self, data: bytes) -> None:
        """Hand over one message; never blocks, drops for readers that are too slow."""
        ...

    def subscribers(self) -> int:
        """How many readers are connected now."""
        ...


class Inbox(Protocol):
    """The incoming side of a set of services."""

    def wait(self, timeout_s: float) -> Set[str]:
        """Wait until any service has a message, at most `timeout_s`; those that have one."""
        ...

    def receive(self, service: str) -> bytes | None:
        """The next message of `service` (the newest one if conflating), or None."""
        ...


class Transport(Protocol):
    """Where publishers and inboxes come from; closing it closes them."""

    def publisher(self, service: str) -> Publisher:
        """A publisher under exactly this name; ModeldError if the place is taken."""
        ...

    def inbox(self, services: Iterable[str], *, conflate: bool = True) -> Inbox:
        """An inbox that hears each service under all of its names.

        `conflate` keeps only the newest message of each service.
        """
        ...

    def close(self) -> None:
        """Close everything; messages already sent are still delivered where possible."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class MergedTransport:
    """Two wires as one: everything is sent to both, `first` is heard before `second`.

    A simulated device speaks through memory this way while the rest of the world uses sockets.
    """

    def __init__(self, first: Transport, second: Transport) -> None:
        self._transports = (first, second)

    def publisher(self, service: str) -> Publisher:
        """A publisher to both."""
        return _MergedPublisher(*(t.publisher(service) for t in self._transports))

    def inbox(self, services: Iterable[str], *, conflate: bool = True) -> Inbox:
        """An inbox of both."""
        names = tuple(services)
        return _MergedInbox(*(t.inbox(names, conflate=conflate) for t in self._transports))

    def close(self) -> None:
        """Close both."""
        for transport in self._transports:
            transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _MergedPublisher:
    def __init__(self, first: Publisher, second: Publisher) -> None:
        self._publishers = (first, second)

    def send(self, data: bytes) -> None:
        for publisher in self._publishers:
            publisher.send(data)

    def subscribers(self) -> int:
        return sum(publisher.subscribers() for publisher in self._publishers)


class _MergedInbox:
    def __init__(self, first: Inbox, second: Inbox) -> None:
        self._first = first
        self._second = second

    def wait(self, timeout_s: float) -> Set[str]:
        # The first is filled by this thread, so waiting on it would be in vain.
        first = self._first.wait(0.0)
        return first | self._second.wait(0.0 if first else timeout_s)

    def receive(self, service: str) -> bytes | None:
        data = self._first.receive(service)
        return self._second.receive(service) if data is None else data
