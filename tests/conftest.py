"""Where tests find real models, clips and logs."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

DATA = Path(os.environ.get("MODELD_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))


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
