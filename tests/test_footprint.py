"""The driver's compiler leaves memory, and works when it is called back."""

import subprocess
import sys
from pathlib import Path

import pytest

from modeld import footprint
from modeld.footprint import release_compiler

# In a process of its own, because this one may have compiled, with more of it in use.
RUN = """
from pathlib import Path
import numpy as np
import pyopencl as cl
from modeld.footprint import release_compiler
from modeld.opencl import select_device

def file_kib():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssFile:")[2].split()[0])

context = cl.Context([select_device()])
queue = cl.CommandQueue(context)
before = file_kib()
released = release_compiler()
print(released, before - file_kib())
text = "__kernel void fill(__global int* out) { out[get_global_id(0)] = 7; }"
kernel = cl.Kernel(cl.Program(context, text).build(), "fill")
out = np.zeros(4, np.int32)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, out.nbytes)
kernel.set_args(buffer)
cl.enqueue_nd_range_kernel(queue, kernel, (4,), None)
release_compiler()
cl.enqueue_copy(queue, out, buffer)
print(out.tolist())
"""


def test_code_leaves_memory_and_comes_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN], capture_output=True, text=True, check=True, timeout=120
    )
    sizes, values = done.stdout.splitlines()
    released, freed_kib = (int(number) for number in sizes.split())
    assert values == "[7, 7, 7, 7]"
    if released:  # a driver whose compiler is a library of its own
        assert freed_kib > 10_000


def test_only_code_of_compilers_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maps = tmp_path / "maps"
    lines = [
        "7f00-7f10 r--p 00000000 fe:00 1    /usr/lib/libLLVM-15.so.1",
        "7f10-7f20 rw-p 00000000 fe:00 1    /usr/lib/libLLVM-15.so.1",
        "7f20-7f30 r-xp 00000000 fe:00 1    /usr/lib/libc.so.6",
        "7f30-7f40 r-xp 00000000 fe:00 1    /usr/lib/llvm-15/libm.so.6",
        "7f40-7f50 r-xp 00000000 00:00 0",
    ]
    maps.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(footprint, "_MAPS", maps)
    assert release_compiler() == 0


def test_systems_without_proc_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footprint, "_MAPS", tmp_path / "absent")
    assert release_compiler() == 0
