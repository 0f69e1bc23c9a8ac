"""What clients and servers do to each other before the first frame."""

import os
import resource
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from modeld.cameras.visionipc.handshake import Answer, Question, unpack_streams
from modeld.cameras.visionipc.listener import Listener
from modeld.errors import ModeldError

KNOWN = Answer(b"known", ())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "visionipc_test"


@pytest.fixture
def listener(path: Path) -> Iterator[Listener]:
    listener = Listener(path, lambda question: KNOWN if question == 5 else None)
    yield listener
    listener.close()


def connect(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.connect(str(path))
    return client


def slow_server(path: Path, backlog: int = 3) -> socket.socket:
    """One that listens but does not answer until the test does it."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(str(path))
    server.listen(backlog)
    return server


def ask(path: Path, question: int) -> bytes | None:
    """What a patient client gets; the server's queue may be full of others at first."""
    asked, give_up = Question(path, question), time.monotonic() + 20
    while time.monotonic() < give_up:
        answer = asked.poll(10)
        if answer is not None:
            return answer.data
    return None


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.usefixtures("listener")
def test_a_question_is_four_bytes_and_the_answer_one_packet(path: Path) -> None:
    assert ask(path, 5) == b"known"
    assert ask(path, 6) == b""
    with connect(path) as client:
        client.send(b"\5\0\0\0")
        assert client.recv(100) == b"known"
        assert client.recv(100) == b""


def test_descriptors_arrive_with_the_answer(path: Path, keep: ExitStack) -> None:
    read, write = os.pipe()
    listener = Listener(path, lambda question: Answer(b"two", (read, write)))
    keep.callback(listener.close)
    answer = Question(path, 0).poll(10)
    assert answer is not None
    assert len(answer.descriptors) == 2
    assert not os.get_inheritable(answer.descriptors[0])
    os.close(write)
    os.write(answer.descriptors[1], b"through")
    assert os.read(read, 10) == b"through"
    answer.close()
    os.close(read)


@pytest.mark.usefixtures("listener")
@pytest.mark.parametrize("request_bytes", [b"\5", b"\5\0\0", b"\5\0\0\0\0", bytes(5000)])
def test_a_question_of_another_size_is_hung_up_on(path: Path, request_bytes: bytes) -> None:
    with connect(path) as client:
        client.send(request_bytes)
        assert client.recv(100) == b""
    assert ask(path, 5) == b"known"


@pytest.mark.usefixtures("listener")
def test_silent_clients_keep_nobody_waiting(path: Path, keep: ExitStack) -> None:
    for _ in range(100):
        keep.enter_context(connect(path))
    assert ask(path, 5) == b"known"


@pytest.mark.usefixtures("listener")
def test_a_silent_client_is_left_after_a_while(path: Path) -> None:
    with connect(path) as client:
        client.settimeout(20)
        assert client.recv(100) == b""


@pytest.mark.usefixtures("listener")
def test_clients_that_leave_before_their_answer_do_no_harm(path: Path) -> None:
    for question in (b"", b"\5\0\0\0", b"\6\0\0\0") * 30:
        with connect(path) as client:
            if question:
                client.send(question)
    assert ask(path, 5) == b"known"


def test_a_living_server_is_not_replaced(path: Path) -> None:
    listener = Listener(path, lambda question: KNOWN)
    with pytest.raises(ModeldError, match=r"another camera server is running at .*visionipc_test"):
        Listener(path, lambda question: None)
    assert ask(path, 5) == b"known"
    listener.close()
    assert not path.exists()
    Listener(path, lambda question: None).close()


def test_a_busy_server_is_not_replaced(path: Path, keep: ExitStack) -> None:
    server = keep.enter_context(slow_server(path, backlog=0))
    keep.enter_context(connect(path))
    with pytest.raises(ModeldError, match="another camera server is running"):
        Listener(path, lambda question: None)
    server.close()


def test_what_a_dead_server_left_is_replaced(path: Path, keep: ExitStack) -> None:
    slow_server(path).close()
    keep.callback(Listener(path, lambda question: KNOWN).close)
    assert ask(path, 0) == b"known"


def test_a_newer_servers_path_is_not_removed(path: Path) -> None:
    listener = Listener(path, lambda question: KNOWN)
    path.unlink()
    newer = Listener(path, lambda question: Answer(b"newer", ()))
    listener.close()
    assert ask(path, 0) == b"newer"
    newer.close()


def test_a_path_that_cannot_be_served_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match=r"cannot be served .*No such file"):
        Listener(tmp_path / "missing" / "socket", lambda question: None)


def test_no_server_means_no_answer_and_no_question(path: Path) -> None:
    question = Question(path, 0)
    assert question.poll(0) is None
    assert not question.pending
    slow_server(path).close()
    assert question.poll(0) is None
    assert not question.pending


def test_a_full_queue_of_clients_is_not_waited_for(path: Path, keep: ExitStack) -> None:
    keep.enter_context(slow_server(path, backlog=0))
    keep.enter_context(connect(path))
    question = Question(path, 0)
    assert question.poll(10) is None
    assert not question.pending


def test_a_slow_answer_is_kept_for(path: Path, keep: ExitStack) -> None:
    server = keep.enter_context(slow_server(path))
    question = Question(path, 7)
    assert question.poll(0) is None
    assert question.pending
    with server.accept()[0] as client:
        assert client.recv(10) == b"\7\0\0\0"
        assert question.poll(0) is None
        client.send(b"at last")
    answer = question.poll(10)
    assert answer == Answer(b"at last", ())
    assert not question.pending


def test_leaving_waits_for_the_answer_that_is_due(
    path: Path, keep: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = keep.enter_context(slow_server(path))
    question = Question(path, 7)
    assert question.poll(0) is None
    waiting, sent, real_poll = threading.Event(), [], question.poll

    def poll(timeout_s: float) -> Answer | None:
        waiting.set()
        return real_poll(timeout_s)

    def answer() -> None:
        waiting.wait(10)
        with server.accept()[0] as client:
            client.recv(10)
            sent.append(client.send(b"late"))

    monkeypatch.setattr(question, "poll", poll)
    thread = threading.Thread(target=answer)
    thread.start()
    question.close()
    thread.join()
    assert sent == [4]
    assert not question.pending


def test_a_server_that_dies_gives_no_answer(path: Path, keep: ExitStack) -> None:
    server = slow_server(path)
    question = Question(path, 7)
    assert question.poll(0) is None
    server.close()
    assert question.poll(10) in (None, Answer(b"", ()))
    assert not question.pending


def test_an_answer_that_was_cut_is_named_and_leaks_nothing(path: Path, keep: ExitStack) -> None:
    before = open_files()
    server = slow_server(path)
    question = Question(path, 7)
    question.poll(0)
    with server.accept()[0] as client:
        client.recv(10)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
        socket.send_fds(client, [bytes(1 << 17)], [server.fileno()])
    with pytest.raises(ModeldError, match="the rest was cut off"):
        question.poll(10)
    server.close()
    assert open_files() == before


def test_a_path_that_may_not_be_asked_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModeldError, match="cannot be asked"):
        Question(tmp_path / "file" / "socket", 0).poll(0)


@pytest.mark.parametrize(
    ("answer", "streams"),
    [
        (Answer(struct.pack("<3I", 0, 2, 1), ()), {0, 1, 2}),
        (Answer(b"", ()), None),
        (Answer(bytes(5), ()), None),
        (Answer(bytes(112), (99,)), None),
    ],
)
def test_a_list_of_streams(answer: Answer, streams: set[int] | None) -> None:
    assert unpack_streams(answer) == streams


@pytest.mark.usefixtures("listener")
def test_a_server_out_of_descriptors_answers_when_it_has_some(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = threading.Event()
    real_select = select.select

    def pause(*arguments: Any) -> object:
        paused.set()
        return real_select(*arguments)

    monkeypatch.setattr(select, "select", pause)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        first_free = os.dup(client.fileno())
        os.close(first_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, hard))
        try:
            client.connect(str(path))
            client.send(b"\5\0\0\0")
            assert paused.wait(10)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        client.settimeout(10)
        assert client.recv(100) == b"known"
