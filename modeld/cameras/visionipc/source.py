"""The road cameras of a device, found by asking its camera server."""

import time

from modeld.cameras.visionipc.counters import StreamCounters
from modeld.cameras.visionipc.handshake import (
    OLDER_STREAM_LIST,
    STREAM_LIST,
    Question,
    unpack_streams,
)
from modeld.cameras.visionipc.paths import NARROW_ROAD, WIDE_ROAD, VisionIpcConfig
from modeld.cameras.visionipc.stream import VisionIpcStream
from modeld.clock import Clock, SystemClock
from modeld.errors import ModeldError

POLL_S = 0.1
# How long a server may take from its first road camera to its second.
SETTLE_S = 1.0
_BEGIN_S = 0.05
# How often a server is asked whether its cameras are still the same; see `CameraWatch`.
_ASK_AGAIN_NS = 1_000_000_000
# The road cameras' streams, by the names that a source has for them.
ROAD = {"narrow": NARROW_ROAD, "wide": WIDE_ROAD}


class VisionIpcSource:
    """A `FrameSource`: the main camera's newest frame, and every frame of the extra one.

    The main camera is the narrow one, or the wide one of a device that has no other.
    """

    def __init__(self, config: VisionIpcConfig, streams: frozenset[int]) -> None:
        if not streams & {NARROW_ROAD, WIDE_ROAD}:
            raise ModeldError(
                f"{config.server} serves streams {sorted(streams)}, no road camera "
                f"({NARROW_ROAD} or {WIDE_ROAD})"
            )
        both = {NARROW_ROAD, WIDE_ROAD} <= streams
        self._patience_s = _BEGIN_S
        self.narrow: VisionIpcStream | None = None
        self.wide: VisionIpcStream | None = None
        # Both cameras' frames count from the moment that either is first waited for. Else the
        # wide frame of the first pair would be gone when the narrow one has been received.
        if NARROW_ROAD in streams:
            self.narrow = VisionIpcStream(config, NARROW_ROAD, True, self._begin)
        if WIDE_ROAD in streams:
            self.wide = VisionIpcStream(config, WIDE_ROAD, not both, self._begin)

    def connect(self, timeout_s: float) -> bool:
        """Have the buffers of all cameras handed over; whether they were within `timeout_s` each.

        Layouts are known after this, and frames count from here on.
        """
        connected = [stream.connect(timeout_s) for stream in self._streams()]
        return all(connected)

    @property
    def counters(self) -> dict[str, StreamCounters]:
        """The counters of each camera by name, `narrow` and `wide`."""
        named = {"narrow": self.narrow, "wide": self.wide}
        return {name: stream.counters for name, stream in named.items() if stream is not None}

    def close(self) -> None:
        """Leave the server; its memory goes with the last frame that is still held."""
        for stream in self._streams():
            stream.close()

    def _streams(self) -> list[VisionIpcStream]:
        return [stream for stream in (self.narrow, self.wide) if stream is not None]

    def _begin(self) -> bool:
        # Waited for at first only: a camera that is not served must not slow the other one down.
        patience_s, self._patience_s = self._patience_s, 0.0
        return self.connect(patience_s)


class StreamList:
    """Asks a server which streams it has, as often as it is polled, one question at a time."""

    def __init__(self, config: VisionIpcConfig) -> None:
        self._path = config.socket_path
        self._kind = STREAM_LIST
        self._question = Question(self._path, self._kind)

    @property
    def pending(self) -> bool:
        """Whether the server has been asked and has not answered yet."""
        return self._question.pending

    def poll(self, timeout_s: float) -> frozenset[int] | None:
        """The streams, or None while there is no server or no answer after `timeout_s`."""
        answer = self._question.poll(timeout_s)
        if answer is None:
            return None
        streams = unpack_streams(answer)
        answer.close()
        if streams is None:
            # Servers of another age take this question for a stream that they do not have.
            self._kind = OLDER_STREAM_LIST if self._kind == STREAM_LIST else STREAM_LIST
            self._question = Question(self._path, self._kind)
        return streams

    def close(self) -> None:
        """Leave the server."""
        self._question.close()


class CameraSearch:
    """Waits for road cameras. `poll` it until it returns a source, then `close` it."""

    def __init__(self, config: VisionIpcConfig, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._list = StreamList(config)
        self._settled_ns: int | None = None
        self.streams: frozenset[int] = frozenset()

    def poll(self, timeout_s: float) -> VisionIpcSource | None:
        """A source on the cameras that are there, or None when none are after `timeout_s`.

        A single road camera counts once it has been alone for `SETTLE_S`.
        """
        deadline = self._clock.monotonic_ns() + round(timeout_s * 1e9)
        while True:
            remaining = (deadline - self._clock.monotonic_ns()) / 1e9
            self._ask(min(remaining, POLL_S))
            if self._ready():
                return VisionIpcSource(self._config, self.streams)
            remaining = (deadline - self._clock.monotonic_ns()) / 1e9
            if remaining <= 0:
                return None
            self._clock.sleep(min(remaining, POLL_S))

    def close(self) -> None:
        """Leave the server."""
        self._list.close()

    def _ask(self, timeout_s: float) -> None:
        streams = self._list.poll(timeout_s)
        if streams is not None:
            self.streams = streams

    def _ready(self) -> bool:
        road = self.streams & {NARROW_ROAD, WIDE_ROAD}
        if len(road) != 1:
            self._settled_ns = None
            return bool(road)
        now = self._clock.monotonic_ns()
        if self._settled_ns is None:
            self._settled_ns = now + round(SETTLE_S * 1e9)
        return now >= self._settled_ns


class CameraWatch:
    """Notices when a server's road cameras are no longer those of a source, more or fewer.

    Ask `changed` in every turn: it never waits. The server is asked at most once a second,
    and not at all while frames of both cameras come. Then `close` it.
    """

    def __init__(self, config: VisionIpcConfig, source: VisionIpcSource, clock: Clock) -> None:
        self._clock = clock
        self._source = source
        self._used = frozenset(ROAD[name] for name in source.counters)
        self._list = StreamList(config)
        self._ask_ns = clock.monotonic_ns() + _ASK_AGAIN_NS
        self._received: list[int] = []
        # What the last answer told, if it was another set than the one in use.
        self._other: frozenset[int] | None = None

    @property
    def pending(self) -> bool:
        """Whether the server has been asked and has not answered yet."""
        return self._list.pending

    def changed(self) -> bool:
        """Whether two answers in a row told of the same other road cameras."""
        if not self.pending and not self._due():
            return False
        streams = self._list.poll(0.0)
        if streams is None:
            return False
        road = streams & frozenset(ROAD.values())
        before, self._other = self._other, road if road and road != self._used else None
        return self._other is not None and self._other == before

    def close(self) -> None:
        """Leave the server."""
        self._list.close()

    def _due(self) -> bool:
        now = self._clock.monotonic_ns()
        if now < self._ask_ns:
            return False
        self._ask_ns = now + _ASK_AGAIN_NS
        before, self._received = (
            self._received,
            [c.received for c in self._source.counters.values()],
        )
        flowing = len(before) == len(ROAD) and all(
            a < b for a, b in zip(before, self._received, strict=True)
        )
        if flowing:
            self._other = None
        return not flowing


def open_cameras(config: VisionIpcConfig, timeout_s: float) -> VisionIpcSource:
    """The road cameras of a server that should be running.

    Raises ModeldError when it shows none within `timeout_s`.
    """
    search = CameraSearch(config)
    started = time.monotonic()
    try:
        source = search.poll(timeout_s)
    finally:
        search.close()
    if source is None:
        seen = f"only streams {sorted(search.streams)}" if search.streams else "no stream"
        raise ModeldError(
            f"{seen} at {config.socket_path} after {time.monotonic() - started:.1f} s: start "
            f"{config.server}, or name its prefix"
        )
    return source
