"""Where tests find real models, clips and logs."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

DATA = Path(os.environ.get("MODELD_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))


def pytest_configure() -> None:
    """A suite started in the background ignores Ctrl-C, and so would the commands it starts."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_path() -> Callable[[str], Path]:
    """Find a file of the data folder; without the folder the test is skipped by name."""

    def find(relative: str) -> Path:
        path = DATA / relative
        if not path.exists():
            message = f"{relative} not found below MODELD_DATA={DATA}"
            if os.environ.get("CI"):
                pytest.fail(message)
            pytest.skip(message)
        return path

    return find


@pytest.fixture(scope="session")
def reference_artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small reference network, built once for all tests that want the real thing."""
    folder = tmp_path_factory.mktemp("reference")
    steps = (
        ["reference", "--out", "reference.onnx"],
        ["build", "reference.onnx", "--out", "driving", "--camera", "1344x760"],
    )
    for step in steps:
        # In a process of its own: what a device loads must not depend on tinygrad being here.
        command = [sys.executable, "-m", "compile", *step]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder / "driving"
