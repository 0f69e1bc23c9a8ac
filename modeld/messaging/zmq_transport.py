"""ZeroMQ publish/subscribe at openpilot's addresses.

One TCP port per service name, `port_of(name)`; one message is one frame holding one unframed
Cap'n Proto stream message, no topic. Loopback unless told otherwise: nothing here encrypts or
authenticates.
"""

import contextlib
from collections.abc import Iterable, Set
from types import TracebackType
from typing import Self

import zmq

from modeld.errors import ModeldError
from modeld.messaging.events import find_service
from msgschema.services import BIG

LOOPBACK = "127.0.0.1"

# openpilot's rule since November 2024: FNV-1a, 64 bits, spread over the unprivileged ports.
_FIRST_PORT, _LAST_PORT = 8023, 65535
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3

# Five seconds of a camera-rate service, one of a CAN-rate one, for a reader that stopped. What
# comes later is dropped; the reader catches up with the present when it goes on.
_QUEUED_MESSAGES = 100
# A sender in a tight loop must not keep a reader that looks for the newest message.
_MOST_SKIPPED = 1000
_RECONNECT_MAX_MS = 500
_LINGER_MS = 500


def port_of(name: str) -> int:
    """The TCP port of a service name."""
    value = _FNV_OFFSET
    for byte in name.encode():
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return _FIRST_PORT + value % (_LAST_PORT - _FIRST_PORT)


class ZmqTransport:
    """Sockets of one process; not to be used in a fork of it.

    Binds publishers to `bind` ("*" for every interface) and connects inboxes to `connect`.
    """

    def __init__(self, *, bind: str = LOOPBACK, connect: str = LOOPBACK) -> None:
        self._bind = bind
        self._connect = connect
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._sockets: list[zmq.Socket[bytes]] = []

    def publisher(self, service: str) -> "ZmqPublisher":
        """Bind the service's port; ModeldError names the address if that fails."""
        find_service(service)
        # XPUB is PUB that also tells who subscribes: the cure for lost first messages.
        socket = self._socket(zmq.XPUB)
        socket.set(zmq.XPUB_VERBOSER, 1)
        socket.set(zmq.SNDHWM, _QUEUED_MESSAGES)
        socket.set(zmq.LINGER, _LINGER_MS)
        address = f"tcp://{self._bind}:{port_of(service)}"
        try:
            socket.bind(address)
        except zmq.ZMQError as error:
            raise ModeldError(
                f"cannot publish {service} on {address} ({error}); stop the other publisher or "
                "bind to another address"
            ) from None
        return ZmqPublisher(socket)

    def inbox(self, services: Iterable[str], *, conflate: bool = True) -> "ZmqInbox":
        """Connect to every name of each service; publishers may come later.

        Raises ModeldError for a host that cannot be an address.
        """
        sockets = {}
        for service in services:
            socket = self._socket(zmq.SUB)
            socket.set(zmq.RCVHWM, _QUEUED_MESSAGES)
            socket.set(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
            socket.set(zmq.LINGER, 0)
            # A peer that sends more than any queue of openpilot's holds is cut off.
            socket.set(zmq.MAXMSGSIZE, BIG)
            socket.subscribe(b"")
            for name in find_service(service).names:
                self._reach(socket, name)
            sockets[service] = socket
        return ZmqInbox(sockets, conflate=conflate)

    def close(self) -> None:
        """Close all sockets; what is queued for connected readers gets half a second."""
        for socket in self._sockets:
            socket.close()
        self._context.term()

    def _reach(self, socket: "zmq.Socket[bytes]", name: str) -> None:
        address = f"tcp://{self._connect}:{port_of(name)}"
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            raise ModeldError(
                f"cannot listen to {name} at {address} ({error}); give a host name or IP address"
            ) from None

    def _socket(self, kind: int) -> "zmq.Socket[bytes]":
        socket = self._context.socket(kind)
        self._sockets.append(socket)
        return socket

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class ZmqPublisher:
    """See `Publisher`."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._subscribers = 0

    def send(self, data: bytes) -> None:
        """Queue one single-part message for every reader, dropping for those that are full."""
        self.subscribers()
        self._socket.send(data, zmq.DONTWAIT)

    def subscribers(self) -> int:
        """Connected readers. Also empties the queue of comings and goings, so call it often."""
        while _has_message(self._socket):
            with contextlib.suppress(zmq.Again):
                change = self._socket.recv(zmq.DONTWAIT)
                self._subscribers += {b"\x01": 1, b"\x00": -1}.get(change[:1], 0)
        return self._subscribers


class ZmqInbox:
    """See `Inbox`.

    Conflates by itself: with libzmq's CONFLATE option (4.3.5) memory is lost whenever both threads
    meet at the queue, about six bytes a message in a tight loop, and grows while nobody reads.
    """

    def __init__(self, sockets: "dict[str, zmq.Socket[bytes]]", *, conflate: bool) -> None:
        self._sockets = sockets
        self._names = {socket: service for service, socket in sockets.items()}
        self._conflate = conflate
        self._poller = zmq.Poller()
        for socket in sockets.values():
            self._poller.register(socket, zmq.POLLIN)

    def wait(self, timeout_s: float) -> Set[str]:
        """Poll all sockets, at most `timeout_s`."""
        return {self._names[socket] for socket, _ in self._poller.poll(round(timeout_s * 1000))}

    def receive(self, service: str) -> bytes | None:
        """One message or None; of a message in several parts, which nobody sends, the last."""
        socket = self._sockets[service]
        data = None
        with contextlib.suppress(zmq.Again):
            for _ in range(_MOST_SKIPPED if self._conflate else 1):
                if not _has_message(socket):
                    break
                data = socket.recv(zmq.DONTWAIT)
                while socket.get(zmq.RCVMORE):
                    data = socket.recv(zmq.DONTWAIT)
        return data


def _has_message(socket: "zmq.Socket[bytes]") -> bool:
    """Asked before receiving: an exception for every empty socket takes twenty times as long."""
    return bool(zmq.zmq_poll([(socket, zmq.POLLIN)], 0))
