"""The device that tinygrad compiles for."""

import pytest

from compile.device import use_device
from modeld.opencl import select_device


@pytest.fixture(scope="session")
def device() -> None:
    """The first one there is. Once tinygrad has opened a device it cannot change it."""
    use_device(select_device())
