"""Questions to a camera server, asked without ever blocking and never left unanswered.

A client that connects and stays silent blocks msgq's server; one that leaves before the reply
can end it. So a question is sent with the connection, and is kept until its answer has come,
however long that takes; only the waiting is cut into pieces.
"""

import contextlib
import errno
import os
import select
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from modeld.errors import ModeldError

STREAM_LIST = 0xFFFF_FFFF
OLDER_STREAM_LIST = 4  # before August 2026: one more than the last of four streams
REQUEST = struct.Struct("<I")
_DESCRIPTOR = struct.Struct("=i")

_MAX_ANSWER = 1 << 16
_MAX_DESCRIPTORS = 253  # the kernel's SCM_MAX_FD
_LEAVE_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One packet. Without bytes the server does not know what it was asked for."""

    data: bytes
    descriptors: tuple[int, ...]

    def close(self) -> None:
        """Close the descriptors; mappings made of them stay."""
        for fd in self.descriptors:
            os.close(fd)


class Question:
    """One question to one server, for instance for a stream's buffers."""

    def __init__(self, path: Path, question: int) -> None:
        self._path = path
        self._question = REQUEST.pack(question)
        self._socket: socket.socket | None = None

    @property
    def pending(self) -> bool:
        """Whether a server has been asked and has not answered yet."""
        return self._socket is not None

    def poll(self, timeout_s: float) -> Answer | None:
        """The answer, or None when it has not come within `timeout_s` or no server is there.

        Raises ModeldError when descriptors were lost on the way.
        """
        if self._socket is None and not self._ask():
            return None
        if self._socket is None or not _readable(self._socket, timeout_s):
            return None
        try:
            return self._receive(self._socket)
        finally:
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """Wait a moment for an answer still due, then leave."""
        if self._socket is not None:
            with contextlib.suppress(ModeldError):
                answer = self.poll(_LEAVE_AFTER_S)
                if answer is not None:
                    answer.close()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ask(self) -> bool:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.setblocking(False)
        try:
            connection.connect(str(self._path))
            connection.send(self._question, socket.MSG_NOSIGNAL)
        except OSError as error:
            connection.close()
            # Not there, not listening, five clients waiting already, or just going down.
            if error.errno in (
                errno.ENOENT,
                errno.ECONNREFUSED,
                errno.EAGAIN,
                errno.EPIPE,
                errno.ECONNRESET,
            ):
                return False
            raise ModeldError(
                f"camera server {self._path} cannot be asked ({error.strerror}): check its owner"
            ) from error
        self._socket = connection
        return True

    def _receive(self, connection: socket.socket) -> Answer | None:
        try:
            data, control, flags, _ = connection.recvmsg(
                _MAX_ANSWER,
                socket.CMSG_SPACE(_MAX_DESCRIPTORS * _DESCRIPTOR.size),
                socket.MSG_CMSG_CLOEXEC,
            )
        except (ConnectionResetError, BlockingIOError):
            return None
        answer = Answer(data, _descriptors(control))
        if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
            answer.close()
            raise ModeldError(
                f"camera server {self._path}: {len(answer.descriptors)} descriptors and "
                f"{len(data)} bytes arrived, the rest was cut off: raise the limit of open files"
            )
        return answer


def send_answer(connection: socket.socket, answer: Answer) -> None:
    """Send bytes and descriptors as one packet."""
    rights = b"".join(_DESCRIPTOR.pack(fd) for fd in answer.descriptors)
    control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if rights else []
    connection.sendmsg([answer.data], control, socket.MSG_NOSIGNAL)


def unpack_streams(answer: Answer) -> frozenset[int] | None:
    """The streams that a server lists; None when this was no list."""
    if answer.descriptors or not answer.data or len(answer.data) % REQUEST.size:
        return None
    return frozenset(number for (number,) in REQUEST.iter_unpack(answer.data))


def _descriptors(control: list[tuple[int, int, bytes]]) -> tuple[int, ...]:
    found: list[int] = []
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            whole = len(data) // _DESCRIPTOR.size * _DESCRIPTOR.size
            found += [fd for (fd,) in _DESCRIPTOR.iter_unpack(data[:whole])]
    return tuple(found)


def _readable(connection: socket.socket, timeout_s: float) -> bool:
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    return bool(poller.poll(max(timeout_s, 0.0) * 1000))
