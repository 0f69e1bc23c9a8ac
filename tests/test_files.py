import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compile.training.config import read_config
from modeld import files
from modeld.config import load_config
from modeld.errors import ModeldError
from modeld.files import MAX_SMALL_BYTES, check_writable, open_atomic, read_small, write_atomic
from modeld.replay.sidecar import read_sidecar
from modeld.rig.budget import read_budget
from modeld.signature import load_public_key

WRITER = """
import sys
from pathlib import Path
from modeld.files import open_atomic
with open_atomic(Path(sys.argv[1])) as stream:
    stream.write(b"half")
    stream.flush()
    print("written", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=["nameless", "hidden"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both kinds of file systems: this one's, and one that knows no files without names."""
    if request.param == "hidden":
        monkeypatch.setattr(files, "_nameless", lambda path: None)
    return str(request.param)


def test_a_file_appears_whole_and_replaces_the_old_one(way: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with open_atomic(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_may_look_back(way: str, tmp_path: Path) -> None:
    with open_atomic(tmp_path / "file") as stream:
        stream.write(b"0000 body")
        stream.seek(0)
        assert stream.read(4) == b"0000"
        stream.seek(0)
        stream.write(b"head")
    assert (tmp_path / "file").read_bytes() == b"head body"


def test_a_failure_leaves_what_was_there(way: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), open_atomic(path) as stream:
        stream.write(b"new")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_others_may_read_as_the_umask_says(way: str, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_no_place_to_write_is_found_out_at_once(way: str, tmp_path: Path) -> None:
    for path, kind in (
        (tmp_path / "no" / "file", FileNotFoundError),
        (tmp_path, IsADirectoryError),
    ):
        with pytest.raises(kind), open_atomic(path):
            pytest.fail("opened")


def test_links_and_pipes_are_no_place_for_results(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("absent")
    check_writable(tmp_path / "file")
    for name in ("pipe", "link", "dangling"):
        with pytest.raises(ModeldError, match=r"cannot be written \(it is no regular file\); name"):
            check_writable(tmp_path / name)


def test_a_killed_writer_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "file")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        writer.send_signal(signal.SIGKILL)
        assert writer.wait(10) == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


def test_a_small_file_may_have_a_megabyte(tmp_path: Path) -> None:
    text = "ä" * (MAX_SMALL_BYTES // 2)
    (tmp_path / "file").write_text(text)
    assert read_small(tmp_path / "file") == text


@pytest.mark.parametrize(
    "read", [load_config, read_budget, read_sidecar, load_public_key, read_config]
)
def test_a_large_file_is_no_small_one(read: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    expected = r"huge has 1099511627776 bytes, expected at most 1048576; name another file"
    with pytest.raises(ModeldError, match=expected):
        read(path)
    with pytest.raises(ModeldError, match=r"/dev/zero has more than 1048576 bytes, expected"):
        read(Path("/dev/zero"))
