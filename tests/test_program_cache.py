"""Whatever befalls the cache, a start is at worst a cold one."""

import errno
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_artifact import KERNEL, SIZE, WEIGHT, write_toy

from modeld import Executor, files, open_artifact
from modeld.opencl import describe_device, select_device
from modeld.program_cache import LEFTOVER, ProgramCache, program_key

KEY = hashlib.sha256(b"key").hexdigest()
BINARY = bytes(range(256)) * 8
TOY_RUN = f"""
import sys
from pathlib import Path
import numpy as np
from modeld import Executor, open_artifact
from modeld.program_cache import ProgramCache
executor = Executor(open_artifact(sys.argv[1]), cache=ProgramCache(Path(sys.argv[2])))
print(executor.run("run_model", {{"x": np.ones({SIZE}, np.float32)}})["y"].tolist())
executor.keep_programs()
print(executor.cache.hits, executor.cache.misses, executor.cache.failures)
"""
# Dies after the entry is written, before it has its name.
KILLED_RUN = """
import os, signal
from pathlib import Path
Path.replace = lambda self, target: os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    write_toy(tmp_path / "toy")
    return tmp_path / "toy"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    ProgramCache(tmp_path / "cache").store(KEY, BINARY)
    return tmp_path / "cache"


def start(toy: Path, cache: Path, before: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", before + TOY_RUN, str(toy), str(cache)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.splitlines()[0] == str(WEIGHT.tolist())
    return out.splitlines()


def test_two_processes_at_once_leave_one_good_entry(toy: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for process in [start(toy, cache) for _ in range(2)]:
        assert lines(process)[1].endswith("[]")
    (entry,) = cache.iterdir()
    assert entry.stat().st_nlink == 1
    executor = Executor(open_artifact(toy), cache=ProgramCache(cache))
    assert (executor.cache.hits, executor.cache.misses) == (1, 0)
    outputs = executor.run("run_model", {"x": np.ones(SIZE, np.float32)})
    np.testing.assert_array_equal(outputs["y"], WEIGHT)


def test_killed_writer_leaves_a_miss_and_its_file_is_removed(toy: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    killed = start(toy, cache, KILLED_RUN)
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    (leftover,) = cache.iterdir()
    assert LEFTOVER.fullmatch(leftover.name)
    assert leftover.stat().st_size > 0
    assert lines(start(toy, cache))[1] == "0 1 []"
    (entry,) = cache.iterdir()
    assert entry.name == leftover.name.split(".")[1]
    assert lines(start(toy, cache))[1] == "1 0 []"


def test_file_of_a_living_writer_and_files_of_others_stay(cache: Path) -> None:
    alive = cache / f".{KEY}.alive"
    other = cache / ".profile"
    other.write_text("")
    with alive.open("wb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        ProgramCache(cache).store(KEY, BINARY)
        assert {path.name for path in cache.iterdir()} == {KEY, alive.name, other.name}
    ProgramCache(cache).store(KEY, BINARY)
    assert {path.name for path in cache.iterdir()} == {KEY, other.name}


# The kernel stops the write part-way, as it does when the disk is full. In a process of its own:
# the OpenCL compiler handles the signal that comes with it, and would end this one.
FULL_DISK_RUN = """
import resource, sys
from pathlib import Path
from modeld.program_cache import ProgramCache
cache = ProgramCache(Path(sys.argv[1]))
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
cache.store(sys.argv[2], bytes(2048))
cache.store(sys.argv[2], bytes(2048))
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
print(cache.failures)
print(list(Path(sys.argv[1]).iterdir()))
cache.store(sys.argv[2], bytes(2048))
print(cache.load(sys.argv[2]) == bytes(2048))
"""


def test_full_disk_costs_the_entry_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK_RUN, str(folder), KEY],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"['{folder}: File too large']", "[]", "True"]


@pytest.mark.parametrize("error", ["ENOSPC", "EROFS", "EACCES", "EDQUOT"])
def test_start_succeeds_where_nothing_can_be_written(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    def refuse(_: Path) -> None:
        number = getattr(errno, error)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files, "_nameless", refuse)
    executor = Executor(open_artifact(toy), cache=ProgramCache(tmp_path / "cache"))
    outputs = executor.run("run_model", {"x": np.ones(SIZE, np.float32)})
    executor.keep_programs()
    np.testing.assert_array_equal(outputs["y"], WEIGHT)
    (failure,) = executor.cache.failures
    assert failure == f"{tmp_path / 'cache'}: {os.strerror(getattr(errno, error))}"


def test_directory_that_cannot_be_made_or_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none/cache")):
        cache = ProgramCache(directory)
        assert cache.load(KEY) is None
        cache.store(KEY, BINARY)
        assert len(cache.failures) == 1


def test_directory_of_others_is_not_used(cache: Path) -> None:
    # Programs that somebody else put there would run here.
    cache.chmod(0o777)
    found = ProgramCache(cache)
    assert found.load(KEY) is None
    found.store(hashlib.sha256(b"other").hexdigest(), BINARY)
    assert [path.name for path in cache.iterdir()] == [KEY]
    assert "writable by everyone" in found.failures[0]
    cache.chmod(0o700)
    assert ProgramCache(cache).load(KEY) == BINARY


@pytest.mark.parametrize("kind", ["fifo", "directory", "link", "device"])
def test_entry_that_is_no_file_is_a_miss(cache: Path, tmp_path: Path, kind: str) -> None:
    entry = cache / KEY
    moved = entry.rename(tmp_path / "moved")
    match kind:
        case "fifo":
            os.mkfifo(entry)
        case "directory":
            entry.mkdir()
        case "link":
            entry.symlink_to(moved)
        case _:
            entry.symlink_to("/dev/zero")
    found = ProgramCache(cache)
    assert found.load(KEY) is None
    found.store(KEY, BINARY)
    assert found.load(KEY) == (None if kind == "directory" else BINARY)
    assert moved.read_bytes().endswith(BINARY)


@given(start=st.integers(0, 2200), length=st.integers(0, 2200), patch=st.binary(max_size=64))
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_damaged_entry_is_a_miss(cache: Path, start: int, length: int, patch: bytes) -> None:
    entry = cache / KEY
    good = entry.read_bytes()
    bad = good[:start] + patch + good[start + length :]
    try:
        entry.write_bytes(bad)
        assert ProgramCache(cache).load(KEY) == (BINARY if bad == good else None)
    finally:
        entry.write_bytes(good)


@given(content=st.binary(max_size=300))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_entry_that_the_driver_does_not_take_is_compiled_again(
    toy: Path, tmp_path: Path, content: bytes
) -> None:
    # Whole to us, and yet no program: what a driver under an old name has left.
    key = program_key(KERNEL, "", describe_device(select_device()))
    ProgramCache(tmp_path / "driver").store(key, content)
    executor = Executor(open_artifact(toy), cache=ProgramCache(tmp_path / "driver"))
    outputs = executor.run("run_model", {"x": np.ones(SIZE, np.float32)})
    np.testing.assert_array_equal(outputs["y"], WEIGHT)
    executor.keep_programs()
    assert ProgramCache(tmp_path / "driver").load(key) != content
