"""Fixtures of the VisionIPC tests."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from camera_bench import ForgedServer, Other

from modeld.cameras.visionipc.paths import VisionIpcConfig


@pytest.fixture
def config(tmp_path: Path) -> VisionIpcConfig:
    return VisionIpcConfig(prefix="test", socket_folder=tmp_path, ring_folder=tmp_path)


@pytest.fixture
def keep() -> Iterator[ExitStack]:
    """Closes what a test opens, in reverse order."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def forge(config: VisionIpcConfig, keep: ExitStack) -> Callable[..., ForgedServer]:
    def make(stream: int = 0, server: int = 77) -> ForgedServer:
        forged = ForgedServer(config, stream, server)
        keep.callback(forged.close)
        return forged

    return make


@pytest.fixture
def other(config: VisionIpcConfig, keep: ExitStack) -> Callable[[], Other]:
    def start() -> Other:
        process = Other(config)
        keep.callback(process.close)
        return process

    return start


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing about the signal, which would end it."""

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2})

    child = subprocess.Popen(
        ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=unblock
    )
    yield child
    child.kill()
    child.communicate()
