"""Sockets of one test run, apart from every other on the machine."""

import os
from collections.abc import Iterator

import pytest

from modeld.messaging import ZmqTransport


@pytest.fixture(scope="session")
def loopback() -> str:
    """A loopback address of this process: ports follow from names, so runs would collide."""
    pid = os.getpid()
    return f"127.{1 + pid // 65025 % 250}.{pid // 255 % 255}.{1 + pid % 254}"


@pytest.fixture
def wire(loopback: str) -> Iterator[ZmqTransport]:
    with ZmqTransport(bind=loopback, connect=loopback) as transport:
        yield transport
