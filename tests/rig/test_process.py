"""The daemon as a process: its end, its failure, its resources."""

import os
from pathlib import Path

import pytest

from modeld.errors import ModeldError
from modeld.rig.process import DaemonProcess


def ended(process: DaemonProcess) -> None:
    """Wait for a process that ends by itself, raising what its end means."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not process.running()


def test_a_failure_is_told_by_the_last_line_of_its_log(tmp_path: Path) -> None:
    arguments = ["--artifact", str(tmp_path / "absent"), "--bind", "127.9.9.9"]
    with (
        DaemonProcess(arguments, tmp_path / "log") as process,
        pytest.raises(ModeldError, match=r"the daemon failed \(1\): .*absent"),
    ):
        ended(process)


def test_a_good_end_is_no_failure(tmp_path: Path) -> None:
    with DaemonProcess(["--help"], tmp_path / "log") as process:
        ended(process)
        assert process.cpu_seconds() is None
    assert "usage: modeld run" in (tmp_path / "log").read_text()
    assert process.resident_bytes() is None


def test_leaving_stops_it(tmp_path: Path) -> None:
    # It waits for cameras that never come.
    with DaemonProcess(["--artifact", str(tmp_path)], tmp_path / "log") as process:
        assert process.resident_bytes() is not None
        assert process.cpu_seconds() is not None
    assert not Path(f"/proc/{process.pid}").exists()
