"""A daemon on fakes: scripted cameras, an executor of made-up answers, messages in memory."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from modeld.cameras.frame import Frame
from modeld.config import Config
from modeld.daemon import PUBLISHED, SUBSCRIBED, Daemon
from modeld.fakes.camera import FakeCamera, FakeStream
from modeld.fakes.clock import FakeClock
from modeld.fakes.executor import OUTPUT_SIZE, FakeExecutor, driving_contract
from modeld.fakes.transport import MemoryTransport
from modeld.health import Health
from modeld.manifest import Contract
from modeld.messaging import PubMaster, SubMaster, decode_event
from modeld.notify import Notifier

TURN_NS = 8_000_000
Vector = npt.NDArray[np.float32]


class ListeningNotifier(Notifier):
    """Remembers instead of sending."""

    def __init__(self) -> None:
        super().__init__(None, watchdog_usec=1_000_000)
        self.sent: list[dict[str, str | int]] = []

    def send(self, **assignments: str | int) -> None:
        self.sent.append(assignments)

    def count(self, key: str) -> int:
        return sum(key in assignments for assignments in self.sent)


def noise(turn: int) -> Vector:
    """A sound answer, another one each turn."""
    return np.random.default_rng(turn).standard_normal((1, OUTPUT_SIZE)).astype(np.float32)


class Bench:
    """Everything around one daemon; `narrow` and `wide` are scripts of frames and time-outs."""

    def __init__(
        self,
        narrow: Iterable[Frame | None] | None,
        wide: Iterable[Frame | None] | None = None,
        answer: Callable[[int], Vector] = noise,
        config: Config | None = None,
        contract: Contract | None = None,
        width: int = 16,
        height: int = 8,
    ) -> None:
        self.clock = FakeClock(0)
        self.transport = MemoryTransport()
        self.device = PubMaster(SUBSCRIBED, self.transport, self.clock)
        self.reader = self.transport.inbox(PUBLISHED, conflate=False)
        self.notifier = ListeningNotifier()
        self.health = Health(self.clock, self.notifier)
        contract = driving_contract(width, height) if contract is None else contract
        self.executor = FakeExecutor(answer, contract, self.clock, TURN_NS)
        streams = [None if s is None else FakeStream(s, self.clock) for s in (narrow, wide)]
        self.daemon = Daemon(
            self.executor,
            FakeCamera(*streams),
            SubMaster(SUBSCRIBED, self.transport, self.clock),
            PubMaster(PUBLISHED, self.transport, self.clock),
            self.clock,
            self.health,
            Config() if config is None else config,
        )
        self.health.ready()

    def send(self, service: str, valid: bool = True, **fields: Any) -> None:
        event = self.device.new_event(service, valid=valid)
        member = getattr(event, service)
        for name, value in fields.items():
            setattr(member, name, value)
        self.device.send(service, event)

    def calibrate(
        self, rpy: Iterable[float] = (0, 0, 0), device: str = "mici", sensor: str = "os04c10"
    ) -> None:
        """What a device says so that its frames can be placed."""
        self.send("deviceState", deviceType=device)
        self.send("narrowRoadCameraState", sensor=sensor)
        self.send("wideRoadCameraState", sensor=sensor)
        self.send("extrinsicsCalibration", rpyCalib=list(rpy))

    def received(self, service: str) -> list[Any]:
        """All events of a service that were published and not yet taken."""
        events = []
        while (data := self.reader.receive(service)) is not None:
            events.append(decode_event(data))
        return events
