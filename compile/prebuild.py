"""Compiling OpenCL programs on all cores, through the driver's own cache.

tinygrad compiles one program after the other. Where the driver keeps on disk what it compiled,
other processes can fill that cache first; the build then finds every program there.
"""

from collections.abc import Callable

import pyopencl as cl

from compile.capture import Capture
from compile.device import BUILD_OPTIONS
from modeld.compiling import compile_together


def prebuild(capture: Capture, device: cl.Device, on_built: Callable[[int, int], None]) -> None:
    """Make the driver's cache hold all programs of `capture`; `on_built` is told (done, all)."""
    sources = {launch.source: launch.source.encode() for launch in capture.launches}
    # What does not compile here is met again by the build, which says so.
    compile_together(device, sources, BUILD_OPTIONS, on_built)
