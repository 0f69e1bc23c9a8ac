"""Keeping out of memory what lies there unused: the compiler inside the OpenCL driver.

A driver may bring a whole compiler as shared libraries (PoCL: LLVM and clang). Loading them and
making a context touches some 50 MB of their code, which stays resident though a process that has
its programs from the cache never compiles.
"""

import ctypes
import re
from pathlib import Path

_MAPS = Path("/proc/self/maps")
# Code of compilers: private, executable, never written. Start and end address in hexadecimal.
_CODE = re.compile(r"^(\w+)-(\w+) r-xp .*/[^/]*(?:LLVM|llvm|clang)[^/]*\.so[^/]*$", re.MULTILINE)
_MADV_DONTNEED = 4


def release_compiler() -> int:
    """Unmap the pages of compilers' code, which equal their file; returns the bytes looked at.

    What is needed after all is mapped again from the file. Does nothing on systems without /proc.
    """
    try:
        maps = _MAPS.read_text()
    except OSError:
        return 0
    madvise = ctypes.CDLL(None).madvise
    released = 0
    for mapping in _CODE.finditer(maps):
        start, stop = (int(address, 16) for address in mapping.groups())
        size = stop - start
        if madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _MADV_DONTNEED) == 0:
            released += size
    return released
