"""Where a recorded device publishes its messages, and a record of them."""

from collections.abc import Sequence
from operator import itemgetter

from modeld.fakes.transport import MemoryTransport

Said = tuple[str, bytes]


class Outlet:
    """Publishers of `services` on `transport`; once `record` was called, also a tape."""

    def __init__(self, services: Sequence[str]) -> None:
        self.transport = MemoryTransport()
        self._publishers = {name: self.transport.publisher(name) for name in services}
        self._tape: list[tuple[int, str, bytes]] | None = None

    def send(self, service: str, data: bytes, moment: int | None) -> None:
        """Publish a message made at `moment` in ns; None for one that no reader will accept."""
        self._publishers[service].send(data)
        if self._tape is not None and moment is not None:
            self._tape.append((moment, service, data))

    def record(self) -> None:
        """Keep what is published from now on for `take`."""
        self._tape = []

    def take(self) -> list[Said]:
        """(service, message) of what was recorded since the last call, in order of the moments."""
        tape, self._tape = self._tape or [], []
        return [(service, data) for _, service, data in sorted(tape, key=itemgetter(0))]
