"""What the OpenCL libraries read from the environment when they load; imported before them."""

import atexit
import os
import sys
from contextlib import suppress
from pathlib import Path

# pyopencl keeps a cache of its own that is read with pickle; `program_cache` replaces it.
os.environ.setdefault("PYOPENCL_NO_CACHE", "1")

# PoCL would compile every kernel twice: for the work sizes of its first launch, and for all sizes
# when the binary is asked for. Kernels for all sizes are as fast within a percent, since ours fix
# their work-group's size.
os.environ.setdefault("POCL_WORK_GROUP_SPECIALIZATION", "0")

# Worker threads that keep a processor each: two that meet on one take turns until the kernel has
# parted them, longer than a launch takes. PoCL counts processors from 0, so it must have them all.
if len(os.sched_getaffinity(0)) == os.cpu_count():
    os.environ.setdefault("POCL_AFFINITY", "1")

# PoCL links every kernel with a program called ld; the set-up puts one here where it is missing.
_TOOLS = Path(sys.prefix, "bin")
if (_TOOLS / "ld").exists():
    os.environ["PATH"] = f"{_TOOLS}{os.pathsep}{os.environ.get('PATH', '')}"

# PoCL keeps in files whatever it compiles or is given compiled, and where there is no room for
# them its compiler ends the process.
_ROOM_BYTES = 64 << 20
# Where a private folder may be made instead, after $TMPDIR.
_SHARED = ("/dev/shm", "/tmp", "/var/tmp")  # noqa: S108 - the folder in it is private


def kernel_cache() -> Path:
    """Where PoCL keeps compiled kernels, by its own rule."""
    if named := os.environ.get("POCL_CACHE_DIR"):
        return Path(named)
    if caches := os.environ.get("XDG_CACHE_HOME"):
        return Path(caches, "pocl", "kcache")
    if home := os.environ.get("HOME"):
        return Path(home, ".cache", "pocl", "kcache")
    return Path("/tmp/pocl/kcache")  # noqa: S108 - PoCL's choice


def trouble_with(folder: Path) -> str:
    """Why PoCL could not keep kernels in `folder`, which need not be there yet; empty if it can."""
    try:
        above = next(p for p in (folder, *folder.parents) if os.path.lexists(p))
        if not above.is_dir():
            return f"{above} is no folder"
        if not os.access(above, os.W_OK | os.X_OK):
            return f"{above} cannot be written"
        system = os.statvfs(above)
    except (OSError, StopIteration):
        return f"{folder} cannot be reached"
    if system.f_flag & os.ST_NOEXEC:
        return f"{above} may hold no programs (it is mounted noexec)"
    if system.f_bavail * system.f_frsize < _ROOM_BYTES or (system.f_files and not system.f_favail):
        return f"{above} has less than {_ROOM_BYTES >> 20} MB free"
    return ""


def _choose_kernel_cache() -> None:
    """Give PoCL a folder for this process where it cannot keep kernels in its own.

    Without any such place things stay as they are; `opencl.select_device` says so.
    """
    if not trouble_with(kernel_cache()):
        return
    import tempfile

    for place in (os.environ.get("TMPDIR"), *_SHARED):
        if not place or trouble_with(Path(place)):
            continue
        with suppress(OSError):
            os.environ["POCL_CACHE_DIR"] = tempfile.mkdtemp(prefix="modeld-pocl-", dir=place)
            atexit.register(_remove, os.environ["POCL_CACHE_DIR"], os.getpid())
            return


def _remove(folder: str, owner: int) -> None:
    """At the end of its owner; copies of that process share the folder."""
    import shutil

    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


_choose_kernel_cache()
