"""What the OpenCL libraries read from the environment when they load; imported before them."""

import os
import sys
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
