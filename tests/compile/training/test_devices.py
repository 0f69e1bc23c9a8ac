"""Runs split over two OpenCL devices: two PoCL devices in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import training_devices

from modeld.opencl import list_devices

pytestmark = pytest.mark.skipif(
    not any("Portable" in device.platform.name for device in list_devices()),
    reason="only PoCL makes two devices of one",
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    done = subprocess.run(
        [sys.executable, training_devices.__file__, str(tmp_path_factory.mktemp("devices"))],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "POCL_DEVICES": "pthread pthread"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_a_split_run_resumes_and_moves(found: Any, name: str) -> None:
    refusal = found[name].pop("refusal")
    assert set(found[name].values()) == {True}, found[name]
    assert "the placement of weight is split along 1 over CL and CL:1 in the checkpoint, " in (
        refusal
    )
    assert "the placement of bias is whole on CL and CL:1 in the checkpoint, CL:1 here" in refusal


def test_copies_that_differ_are_not_saved(found: Any) -> None:
    assert found["copies"].startswith("whole on CL and CL:1: the copies of a tensor differ")
