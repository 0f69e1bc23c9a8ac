"""The thread that answers a camera server's clients, whatever they do or fail to do."""

import contextlib
import os
import select
import selectors
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from modeld.cameras.visionipc.handshake import REQUEST, Answer, send_answer
from modeld.errors import ModeldError

# A client sends its question with its connection; one that does not is not waited for.
_SILENCE_S = 1.0
_PAUSE_S = 0.1
_MAX_CLIENTS = 64
_BACKLOG = 64

# Maps a question to an answer, or to None for "no such stream".
Answerer = Callable[[int], Answer | None]


class Listener:
    """Serves one socket path from construction to `close`.

    Raises ModeldError when a living server has the path. The remains of a dead one are replaced.
    """

    def __init__(self, path: Path, answer: Answerer) -> None:
        self._path = path
        self._answer = answer
        self._socket = _bind(path)
        self._inode = path.stat().st_ino
        self._stop, self._stopper = socket.socketpair()
        self._clients: dict[socket.socket, float] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._stop, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="visionipc-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering; the path is removed unless another server has taken it meanwhile."""
        self._stopper.send(b"x")
        self._thread.join()
        for connection in (*self._clients, self._socket, self._stop, self._stopper):
            connection.close()
        self._selector.close()
        with contextlib.suppress(FileNotFoundError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()

    def _run(self) -> None:
        while True:
            timeout = _SILENCE_S if self._clients else None
            for key, _ in self._selector.select(timeout):
                connection = key.fileobj
                if connection is self._stop:
                    return
                if connection is self._socket:
                    self._accept()
                elif isinstance(connection, socket.socket):
                    self._serve(connection)
            self._drop_silent()

    def _accept(self) -> None:
        try:
            client, _ = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # it has left again
        except OSError:
            # Out of descriptors or memory: the client stays in the queue, try again soon.
            select.select([self._stop], [], [], _PAUSE_S)
            return
        client.setblocking(False)
        self._clients[client] = time.monotonic() + _SILENCE_S
        self._selector.register(client, selectors.EVENT_READ)

    def _serve(self, client: socket.socket) -> None:
        # The client may leave at any moment: then there is nobody to tell.
        with contextlib.suppress(OSError):
            question = client.recv(REQUEST.size + 1)
            answer = None
            if len(question) == REQUEST.size:
                answer = self._answer(*REQUEST.unpack(question))
            if answer is not None:
                send_answer(client, answer)
        self._drop(client)

    def _drop_silent(self) -> None:
        now = time.monotonic()
        excess = len(self._clients) - _MAX_CLIENTS
        for number, (client, deadline) in enumerate(list(self._clients.items())):
            if number < excess or deadline <= now:
                self._drop(client)

    def _drop(self, client: socket.socket) -> None:
        del self._clients[client]
        self._selector.unregister(client)
        client.close()


def _bind(path: Path) -> socket.socket:
    if _is_served(path):
        raise ModeldError(
            f"another camera server is running at {path}: stop it, or use a prefix of your own"
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ModeldError(
            f"{path} cannot be served ({os.strerror(error.errno or 0)}): check its folder and owner"
        ) from error
    listener.setblocking(False)
    return listener


def _is_served(path: Path) -> bool:
    """Whether somebody listens. Leaving at once is harmless: a server sees an empty request."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True  # its queue of clients is full
        except OSError:
            return False
        return True
