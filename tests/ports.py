"""What a board supplies, and the boards that are built in; `tests/port` checks them.

`MODELD_PORT=module:NAME pytest tests/port` checks another one: NAME is an object that keeps the
`Port` protocol.
"""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from daemon_bench import ListeningNotifier

from modeld import Executor, open_artifact
from modeld.boundary import FrameExecutor
from modeld.cameras.frame import EndOfStreamError, Frame, FrameLayout, FrameSource, FrameStream
from modeld.cameras.visionipc.paths import NARROW_ROAD, WIDE_ROAD, VisionIpcConfig
from modeld.cameras.visionipc.server import VisionIpcServer
from modeld.cameras.visionipc.source import open_cameras
from modeld.config import Config
from modeld.daemon import PUBLISHED, SUBSCRIBED, Daemon
from modeld.fakes.camera import FakeCamera, FakeStream
from modeld.fakes.clock import FakeClock
from modeld.fakes.executor import OUTPUT_SIZE, FakeExecutor, driving_contract
from modeld.fakes.transport import MemoryTransport
from modeld.health import Health
from modeld.messaging import PubMaster, SubMaster

Pair = tuple[Frame, Frame]


class Port(Protocol):
    """A board: how its pictures come, and what runs the network."""

    name: str
    # What one turn may take on this board, from pictures to outputs, in nanoseconds.
    budget_ns: int

    def cameras(self, pairs: Sequence[Pair], folder: Path) -> AbstractContextManager[FrameSource]:
        """The board's frame source, whose cameras take exactly these pictures, narrow and wide.

        After the last one a stream gives None or raises EndOfStreamError. `folder` is empty and
        may be used for sockets and the like.
        """

    def executor(self, artifact: Path) -> FrameExecutor:
        """What runs the artifact's network on this board."""


@contextmanager
def scripted(pairs: Sequence[Pair]) -> Iterator[FrameSource]:
    """Pictures from memory."""
    source = FakeCamera(*(FakeStream([pair[side] for pair in pairs]) for side in (0, 1)))
    yield source
    source.close()


@dataclass(frozen=True)
class FakeBoard:
    """Scripted cameras, and an executor that knows the toy network's answers."""

    name: str = "fakes"
    budget_ns: int = 50_000_000

    def cameras(self, pairs: Sequence[Pair], folder: Path) -> AbstractContextManager[FrameSource]:
        return scripted(pairs)

    def executor(self, artifact: Path) -> FrameExecutor:
        (camera,) = open_artifact(artifact).manifest.contract.cameras
        contract = driving_contract(camera.width, camera.height)
        fake = FakeExecutor(lambda turn: answer(fake.calls[turn].narrow), contract)
        return fake


@dataclass(frozen=True)
class OpenClBoard:
    """Scripted cameras and the OpenCL executor, as on a machine without cameras."""

    name: str = "opencl"
    budget_ns: int = 50_000_000

    def cameras(self, pairs: Sequence[Pair], folder: Path) -> AbstractContextManager[FrameSource]:
        return scripted(pairs)

    def executor(self, artifact: Path) -> FrameExecutor:
        return Executor(open_artifact(artifact))


@dataclass(frozen=True)
class VisionIpcBoard(OpenClBoard):
    """Pictures through shared memory, as on a comma device."""

    name: str = "visionipc"

    @contextmanager
    def cameras(self, pairs: Sequence[Pair], folder: Path) -> Iterator[FrameSource]:
        config = VisionIpcConfig(socket_folder=folder, ring_folder=folder)
        with VisionIpcServer(config) as server:
            for stream in (NARROW_ROAD, WIDE_ROAD):
                server.add_stream(stream, pairs[0][0].layout)
            server.start()
            source = open_cameras(config, 10)
            # The first wait enters the reader; a camera that runs would not be waited for.
            for side in (source.narrow, source.wide):
                if side is not None and side.receive(0) is not None:
                    raise AssertionError("a picture came that nobody took")
            narrow, wide = (
                Taken(server, number, stream, [pair[side] for pair in pairs])
                for side, (number, stream) in enumerate(
                    ((NARROW_ROAD, source.narrow), (WIDE_ROAD, source.wide))
                )
                if stream is not None
            )
            yield FakeCamera(narrow, wide)  # type: ignore[arg-type]
            source.close()


class Taken:
    """A stream whose camera takes the next picture when somebody waits for one."""

    def __init__(
        self, server: VisionIpcServer, number: int, stream: FrameStream, frames: Sequence[Frame]
    ) -> None:
        self._server, self._number, self._stream = server, number, stream
        self._frames = deque(frames)

    def receive(self, timeout_s: float) -> Frame | None:
        if not self._frames:
            if self._stream.receive(0) is not None:
                raise AssertionError("a picture came that nobody took")
            raise EndOfStreamError
        self._server.send(self._number, self._frames.popleft())
        return self._stream.receive(timeout_s)


BOARDS: tuple[Port, ...] = (FakeBoard(), OpenClBoard(), VisionIpcBoard())


def answer(narrow: Frame) -> np.ndarray:
    """What the toy driving network says of a picture; see `toy_driver`."""
    places = np.minimum(np.arange(OUTPUT_SIZE), narrow.layout.uv_offset - 1)
    return (narrow.data[places].astype(np.float32) / 256 - 0.5)[None]


def picture(number: int, side: int, layout: FrameLayout) -> Frame:
    """A picture of noise, another one for every number and side, at 20 Hz."""
    random = np.random.default_rng((number, side))
    data = random.integers(0, 256, layout.bytes, np.uint8)
    start = 1_000_000_000 + number * 50_000_000
    return Frame(data, layout, number, start, start + 12_345_678)


def pictures(count: int, layout: FrameLayout, first: int = 0) -> list[Pair]:
    return [(picture(n, 0, layout), picture(n, 1, layout)) for n in range(first, first + count)]


class Drive:
    """A daemon on a board; its messages go to memory and its clock stands still."""

    def __init__(self, source: FrameSource, executor: FrameExecutor) -> None:
        self.clock = FakeClock(2_000_000_000)
        self.notifier = ListeningNotifier()
        self.health = Health(self.clock, self.notifier)
        transport = MemoryTransport()
        self._reader = transport.inbox(PUBLISHED, conflate=False)
        self._daemon = Daemon(
            executor,
            source,
            SubMaster(SUBSCRIBED, transport, self.clock),
            PubMaster(PUBLISHED, transport, self.clock),
            self.clock,
            self.health,
            Config(),
        )
        self.health.ready()

    def run(self) -> int:
        return self._daemon.run(threading.Event(), None)

    def messages(self) -> dict[str, list[bytes]]:
        """Everything published, as bytes, by service."""
        found: dict[str, list[bytes]] = {}
        for service in PUBLISHED:
            while (data := self._reader.receive(service)) is not None:
                found.setdefault(service, []).append(bytes(data))
        return found
