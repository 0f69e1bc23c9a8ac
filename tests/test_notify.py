import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from modeld.notify import Notifier, notifier_of


def listener(address: str | bytes) -> socket.socket:
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(address)
    receiver.settimeout(5)
    return receiver


@pytest.fixture(params=["path", "abstract"])
def manager(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[socket.socket, Notifier]]:
    """A service manager's socket and the notifier that its environment makes."""
    if request.param == "path":
        address = str(tmp_path / "notify")
        receiver = listener(address)
    else:
        name = f"modeld-test-{os.getpid()}"
        address, receiver = f"@{name}", listener(b"\0" + name.encode())
    notifier = notifier_of({"NOTIFY_SOCKET": address})
    yield receiver, notifier
    notifier.close()
    receiver.close()


def test_what_is_sent(manager: tuple[socket.socket, Notifier]) -> None:
    receiver, notifier = manager
    notifier.ready("running")
    notifier.watchdog()
    notifier.status("running, 3 frames")
    notifier.extend_start(30)
    notifier.stopping()
    assert [receiver.recv(200) for _ in range(5)] == [
        b"READY=1\nSTATUS=running",
        b"WATCHDOG=1",
        b"STATUS=running, 3 frames",
        b"EXTEND_TIMEOUT_USEC=30000000",
        b"STOPPING=1",
    ]


def test_watchdog_is_armed_with_the_period_that_the_manager_wants(tmp_path: Path) -> None:
    receiver = listener(str(tmp_path / "notify"))
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "10000000"}
    notifier = notifier_of(environment)
    notifier.disarm_watchdog()
    notifier.arm_watchdog()
    key, _, period = receiver.recv(200).decode().partition("=")
    assert key == "WATCHDOG_USEC"
    assert int(period) > 24 * 3600 * 1_000_000
    assert receiver.recv(200) == b"WATCHDOG_USEC=10000000"
    notifier.close()
    receiver.close()


def test_without_a_watchdog_there_is_nothing_to_arm(tmp_path: Path) -> None:
    receiver = listener(str(tmp_path / "notify"))
    notifier = notifier_of({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "x"})
    notifier.disarm_watchdog()
    notifier.arm_watchdog()
    notifier.status("end")
    assert receiver.recv(200) == b"STATUS=end"
    notifier.close()
    receiver.close()


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}])
def test_nothing_is_sent_without_a_manager(environment: dict[str, str]) -> None:
    notifier = notifier_of(environment)
    notifier.ready("running")
    notifier.close()


def test_manager_that_is_gone_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = Notifier(str(tmp_path / "nobody"))
    notifier.watchdog()
    notifier.watchdog()
    notifier.close()
    assert caplog.text.count("service manager not reached") == 1


def test_manager_that_does_not_read_does_not_block(tmp_path: Path) -> None:
    receiver = listener(str(tmp_path / "busy"))
    notifier = Notifier(str(tmp_path / "busy"))
    for _ in range(5000):  # far more than any socket queues
        notifier.watchdog()
    notifier.close()
    receiver.close()
