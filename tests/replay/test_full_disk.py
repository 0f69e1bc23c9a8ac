"""Logs and movies on a disk that fills up while they are written."""

import subprocess
import sys
from pathlib import Path

import pytest

_WRITERS = {
    "out.zst": """
from modeld.replay.log import LogWriter
with LogWriter(path) as log:
    for _ in range(40):
        log.write(os.urandom(4096))
""",
    "out.mp4": """
import numpy as np
from modeld.replay.movie import MovieWriter
with MovieWriter(path, 20) as movie:
    for _ in range(40):
        movie.add(np.frombuffer(os.urandom(64 * 96 * 3), np.uint8).reshape(64, 96, 3))
""",
}


@pytest.mark.parametrize("name", _WRITERS)
def test_a_full_disk_is_named_and_leaves_what_was_there(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"old")
    program = f"""
import os, resource, sys
from pathlib import Path
from modeld.command_line import run_guarded
path = Path({str(path)!r})
def action():
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    exec({_WRITERS[name]!r}, {{"os": os, "path": path}})
sys.exit(run_guarded("modeld", action))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"modeld: error: {path} cannot be written (File too large); ")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
