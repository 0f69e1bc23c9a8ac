"""What PoCL reads when it loads: a place for its kernels that can hold them."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from toy_artifact import write_toy

from modeld import environment, opencl
from modeld.errors import ModeldError

ROOT = Path(__file__).parents[1]
MIB = 1 << 20


def disk(**numbers: int) -> SimpleNamespace:
    free = {"f_flag": 0, "f_frsize": 4096, "f_bavail": MIB, "f_files": 9, "f_favail": 9}
    return SimpleNamespace(**(free | numbers))


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (disk(), ""),
        (disk(f_files=0, f_favail=0), ""),  # a file system without a limit of files
        (disk(f_bavail=63 * MIB // 4096), "less than 64 MB free"),
        (disk(f_favail=0), "less than 64 MB free"),
        (disk(f_flag=os.ST_NOEXEC), "mounted noexec"),
    ],
)
def test_kernels_need_a_disk_with_room_for_programs(
    status: SimpleNamespace, trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: status)
    found = environment.trouble_with(tmp_path / "not" / "yet" / "there")
    assert trouble in found
    assert bool(trouble) == bool(found)


def test_kernels_need_a_folder_that_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loose").symlink_to(tmp_path / "nowhere")
    assert "file is no folder" in environment.trouble_with(tmp_path / "file" / "pocl")
    assert "loose is no folder" in environment.trouble_with(tmp_path / "loose" / "pocl")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert f"{tmp_path} cannot be written" in environment.trouble_with(tmp_path / "pocl")


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"POCL_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"POCL_CACHE_DIR": "", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/pocl/kcache"),
        ({"XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/pocl/kcache"),
        ({}, "/tmp/pocl/kcache"),
    ],
)
def test_the_place_is_found_as_pocl_finds_it(
    variables: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("POCL_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert environment.kernel_cache() == Path(place)


def python(program: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | {"POCL_CACHE_DIR": ""} | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SHOW = "import os, modeld.environment; print(os.environ['POCL_CACHE_DIR'])"


def test_a_place_that_will_do_is_left_alone(tmp_path: Path) -> None:
    assert python(SHOW, XDG_CACHE_HOME=str(tmp_path / "caches")) == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("variable", ["POCL_CACHE_DIR", "XDG_CACHE_HOME"])
def test_a_place_that_will_not_do_is_replaced_until_the_end(variable: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "room").mkdir()
    variables = {variable: str(tmp_path / "file" / "below"), "TMPDIR": str(tmp_path / "room")}
    # A copy of the process leaves the folder to the one that made it.
    copied = SHOW + "\nif os.fork() == 0: raise SystemExit\nos.wait()"
    copied += "\nassert os.path.isdir(os.environ['POCL_CACHE_DIR'])"
    folder = Path(python(copied, **variables).splitlines()[0])
    assert folder.parent == tmp_path / "room"
    assert not folder.exists()


def test_nowhere_at_all_is_no_error_of_the_import(tmp_path: Path) -> None:
    no_room = "import os; os.access = lambda *_: False\n"
    assert python(no_room + SHOW) == ""


def test_an_artifact_starts_without_a_disk_for_kernels(tmp_path: Path) -> None:
    write_toy(tmp_path / "toy")
    (tmp_path / "file").touch()
    program = (
        "import sys; from modeld.cli import main\n"
        f"sys.exit(main(['check', {str(tmp_path / 'toy')!r}, '--cache', {str(tmp_path / 'c')!r}]))"
    )
    assert "equal bit for bit" in python(program, XDG_CACHE_HOME=str(tmp_path / "file"))


def test_no_platform_for_want_of_a_place_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opencl, "list_devices", list)
    (tmp_path / "file").touch()
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(ModeldError, match=r"no place for its kernels \(.*file is no folder\)"):
        opencl.select_device()
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    with pytest.raises(ModeldError, match="no OpenCL platform found; install one"):
        opencl.select_device()
