"""One camera's pictures, received from a camera server."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from modeld.cameras.frame import Frame, FrameLayout
from modeld.cameras.visionipc.atomics import require_atomics
from modeld.cameras.visionipc.buffers import PictureBuffer, map_buffers
from modeld.cameras.visionipc.counters import Fault, StreamCounters
from modeld.cameras.visionipc.handshake import Answer, Question
from modeld.cameras.visionipc.paths import STREAM_NAMES, VisionIpcConfig
from modeld.cameras.visionipc.records import PACKET_BYTES, BufferRecord, Packet, unpack_records
from modeld.cameras.visionipc.ring import LENGTH, Ring
from modeld.cameras.visionipc.subscriber import Subscriber
from modeld.cameras.visionipc.wakeup import require_wakeups, wait_for_wakeup
from modeld.errors import ModeldError

# Nobody wakes a reader whose slot was taken, or tells it of a new ring, so it looks this often.
# Looking costs under 1 % of a core and keeps the way to the next frame in the caches: it takes
# 0.12 ms then, and 0.18 ms with a look every 20 ms (measured with two busy cores).
LOOK_S = 0.005
# A server that cannot be used is not asked again sooner.
_ASK_AGAIN_S = 0.1


class VisionIpcStream:
    """A `FrameStream` on a camera server, which may come, go and change at any time.

    Frames are views of the server's memory, valid until the next `receive`; a server reuses a
    buffer after as many frames as it has buffers. With `conflate` only the newest frame is
    taken. Use it from one thread. Faults of the server are counted, never raised.
    `begin` is called before a frame is waited for, until it returns True. Raises ModeldError
    where the system lacks what rings need.
    """

    def __init__(
        self,
        config: VisionIpcConfig,
        stream: int,
        conflate: bool,
        begin: Callable[[], bool] | None = None,
    ) -> None:
        require_atomics()
        require_wakeups()
        name = STREAM_NAMES.get(stream, "unnamed")
        self.name = f"{config.server} stream {stream} ({name})"
        self.counters = StreamCounters()
        self._config = config
        self._stream = stream
        self._conflate = conflate
        self._question = Question(config.socket_path, stream)
        self._ask_at = 0.0
        self._asked_for = 0
        self._subscriber: Subscriber | None = None
        self._buffers: tuple[PictureBuffer, ...] = ()
        self._server = 0
        # A packet that told of another server, until that server's buffers are here.
        self._held: Packet | None = None
        self._last_id = -1
        self._fills_valid = False
        self._begin = begin

    @property
    def layout(self) -> FrameLayout | None:
        """How pictures lie in their buffers; None before the server has answered."""
        return self._buffers[0].layout if self._buffers else None

    def connect(self, timeout_s: float) -> bool:
        """Wait until the server has handed over its buffers; whether it has.

        Frames count from here on, not only from the first `receive`.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            remaining = deadline - time.monotonic()
            if self._connected(remaining) and self._subscriber and self._subscriber.register():
                return True
            if not self._wait(remaining):
                return False

    def receive(self, timeout_s: float) -> Frame | None:
        """The next frame, or None when none came within `timeout_s`; see the class."""
        deadline = time.monotonic() + timeout_s
        if self._begin is not None and self._begin():
            self._begin = None
        while True:
            if self._buffers:
                frame = self._next_frame()
                if frame is not None:
                    self.counters.received += 1
                    return frame
            remaining = deadline - time.monotonic()
            if not self._buffers and self._connected(remaining):
                continue
            if not self._wait(remaining):
                with self._counted():
                    self._check_ring()
                return None

    def close(self) -> None:
        """Leave the ring to others and let the buffers go."""
        self._question.close()
        if self._subscriber is not None:
            self._subscriber.close()
            self._subscriber = None
        self._buffers = ()

    def _wait(self, remaining: float) -> bool:
        """Sleep until woken or until it is time to look again; False when time is up."""
        if remaining <= 0:
            return False
        if not self._question.pending:
            wait_for_wakeup(min(remaining, LOOK_S))
        return True

    def _connected(self, remaining: float) -> bool:
        """Whether there are buffers; asks for them, or waits a little for the answer."""
        if self._buffers or time.monotonic() < self._ask_at:
            return bool(self._buffers)
        with self._counted():
            answer = self._question.poll(min(remaining, LOOK_S))
            if answer is not None:
                with closing(answer):
                    self._accept(answer)
        if not self._question.pending:
            self._ask_at = time.monotonic() + _ASK_AGAIN_S
        return bool(self._buffers)

    def _accept(self, answer: Answer) -> None:
        """Take over the buffers, and the ring that goes with them.

        The ring belongs to the server's side: one that is not there yet is not made here,
        because its length is for the server to choose.
        """
        if not answer.data:
            self._fault("unserved", f"{self.name} is not served")
            return
        records = unpack_records(answer.data, len(answer.descriptors))
        buffers = map_buffers(records, answer.descriptors)
        self._check_ring()
        if self._subscriber is None:
            return
        self._buffers = buffers
        self._take_server(records[0])

    def _take_server(self, record: BufferRecord) -> None:
        if record.server != self._server:
            if self._server:
                self._fault("reconnected", f"{self.name}: the camera server was restarted")
            self._server = record.server
            self._last_id = -1
            self._fills_valid = False

    def _check_ring(self) -> None:
        """Open the ring, or the new one if the old has been replaced."""
        if self._subscriber is not None and self._subscriber.ring.is_current():
            return
        ring = Ring.open(self._config.ring_path(self._stream)) or Ring.open(
            self._config.older_ring_path(self._stream)
        )
        if ring is None:
            return
        if self._subscriber is not None:
            self._fault("reconnected", f"{self.name}: {ring.path} was replaced")
            self._subscriber.close()
        self._subscriber = Subscriber(ring, self._conflate, self.counters)

    def _next_frame(self) -> Frame | None:
        while (packet := self._next_packet()) is not None:
            if packet.server != self._server:
                if not self._ask_for(packet):
                    self._fault("foreign", f"{self.name}: packet of server {packet.server:#x}")
                    continue
                return None
            if packet.buffer >= len(self._buffers):
                self._fault(
                    "bad_index",
                    f"{self.name}: frame {packet.frame_id} in buffer {packet.buffer} of "
                    f"{len(self._buffers)}",
                )
                continue
            frame = self._frame(packet)
            if frame is not None:
                return frame
        return None

    def _next_packet(self) -> Packet | None:
        if self._held is not None:
            packet, self._held = self._held, None
            return packet
        while self._subscriber is not None:
            data = self._subscriber.receive()
            if data is None:
                return None
            if len(data) == PACKET_BYTES:
                return Packet.unpack(data)
            self._fault(
                "corrupt", f"{self.name}: packet of {len(data)} bytes instead of {PACKET_BYTES}"
            )
        return None

    def _ask_for(self, packet: Packet) -> bool:
        """Start to ask for the buffers of a packet's server, unless that was tried just now."""
        now = time.monotonic()
        if packet.server == self._asked_for and now < self._ask_at:
            return False
        self._asked_for = packet.server
        self._ask_at = now
        self._held = packet
        self._buffers = ()
        return True

    def _frame(self, packet: Packet) -> Frame | None:
        buffer = self._buffers[packet.buffer]
        stamp = buffer.stamp
        if self._overwritten(stamp, packet):
            self._fault(
                "overwritten",
                f"{self.name}: frame {packet.frame_id} came too late, its buffer shows {stamp}",
            )
            return None
        if packet.frame_id < self._last_id:
            self._fault("id_back", f"{self.name}: frame {packet.frame_id} follows {self._last_id}")
        self._last_id = packet.frame_id
        self._fills_valid |= packet.valid
        return Frame(
            buffer.pixels,
            buffer.layout,
            packet.frame_id,
            packet.timestamp_sof,
            packet.timestamp_eof,
            # Most servers never set the flag; only one that has set it means something by false.
            packet.valid or not self._fills_valid,
        )

    def _overwritten(self, stamp: int, packet: Packet) -> bool:
        """Whether the buffer shows another frame; by the backlog where no stamp is kept."""
        if stamp:
            return stamp != packet.frame_id
        record = LENGTH.size + PACKET_BYTES
        backlog = self._subscriber.unread // record if self._subscriber is not None else 0
        return backlog >= len(self._buffers)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        try:
            yield
        except ModeldError as error:
            self._fault("bad_reply", str(error))

    def _fault(self, kind: Fault, description: str) -> None:
        self.counters.fault(kind, description)
