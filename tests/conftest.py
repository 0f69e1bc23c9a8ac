"""Where tests find real models, clips and logs."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

DATA = Path(os.environ.get("MODELD_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))


def pytest_configure() -> None:
    """What the suite was started from makes no difference to the commands that it starts."""
    os.environ.pop("COLUMNS", None)  # the width of tables, which a terminal's user may have set
    # A suite started in the background ignores Ctrl-C.
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
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # common to the processes that share the tests
    built = folder / "reference"
    with (folder / "reference.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            unfinished = tmp_path_factory.mktemp("reference")
            _build_reference(unfinished)
            unfinished.rename(built)
    return built / "driving"


def _build_reference(folder: Path) -> None:
    steps = (
        ["reference", "--out", "reference.onnx"],
        ["build", "reference.onnx", "--out", "driving", "--camera", "1344x760"],
    )
    for step in steps:
        # In a process of its own: what a device loads must not depend on tinygrad being here.
        command = [sys.executable, "-m", "compile", *step]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
