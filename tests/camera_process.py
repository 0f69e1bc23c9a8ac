"""The other side of a two-process test: obeys one command a line, answers with one line each."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from modeld.cameras.frame import Frame, FrameLayout
from modeld.cameras.visionipc.counters import StreamCounters
from modeld.cameras.visionipc.paths import VisionIpcConfig
from modeld.cameras.visionipc.publisher import Publisher
from modeld.cameras.visionipc.ring import READER_COUNT, Ring
from modeld.cameras.visionipc.server import VisionIpcServer
from modeld.cameras.visionipc.stream import VisionIpcStream
from modeld.cameras.visionipc.subscriber import Subscriber

LAYOUT = FrameLayout(width=64, height=48, stride=128, uv_offset=128 * 48)
PREFIX, SOCKETS, RINGS = sys.argv[1:]
CONFIG = VisionIpcConfig(prefix=PREFIX, socket_folder=Path(SOCKETS), ring_folder=Path(RINGS))

server = VisionIpcServer(CONFIG)
streams: dict[int, VisionIpcStream] = {}
kept: list[Subscriber] = []


def serve(buffers: int, *numbers: int) -> str:
    for number in numbers:
        server.add_stream(number, LAYOUT, buffers)
    server.start()
    return "serving"


def send(stream: int, first: int, last: int) -> str:
    for frame_id in range(first, last + 1):
        data = np.full(LAYOUT.bytes, frame_id % 251, np.uint8)
        sof = frame_id * 50_000_000
        server.send(stream, Frame(data, LAYOUT, frame_id, sof, sof + 7))
    return f"sent {server.reader_count(stream)}"


def connect(stream: int, conflate: int) -> str:
    streams[stream] = VisionIpcStream(CONFIG, stream, bool(conflate))
    return f"connected {streams[stream].connect(5.0)}"


def receive(stream: int) -> str:
    frame = streams[stream].receive(5.0)
    if frame is None:
        return "none"
    same = bool((frame.data == frame.data[0]).all())
    return f"{frame.frame_id} {frame.data[0]} {same}"


def crowd(stream: int, readers: int) -> str:
    """Take slots as readers do that never look at the ring."""
    for _ in range(readers):
        ring = Ring.open(CONFIG.ring_path(stream))
        assert ring is not None
        kept.append(Subscriber(ring, True, StreamCounters()))
        kept[-1].register()
    return f"slots {kept[0].ring.words.load(READER_COUNT)}"


def flood(stream: int, segment: int, count: int) -> str:
    """Write records as fast as possible: a number, repeated to a length that varies."""
    publisher = Publisher(Ring.create(CONFIG.ring_path(stream), segment))
    for number in range(1, count + 1):
        publisher.send(number.to_bytes(4, "little") * (1 + number * 7 % 16))
    publisher.send(bytes(4))
    return "flooded"


COMMANDS: dict[str, Callable[..., str]] = {
    "serve": serve,
    "send": send,
    "connect": connect,
    "receive": receive,
    "crowd": crowd,
    "flood": flood,
}

for line in sys.stdin:
    name, *numbers = line.split()
    sys.stdout.write(COMMANDS[name](*map(int, numbers)) + "\n")
    sys.stdout.flush()
