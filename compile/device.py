"""Making tinygrad use the OpenCL device that the artifact is built for."""

import ctypes

import pyopencl as cl
from tinygrad.device import Device
from tinygrad.renderer.cstyle import OpenCLRenderer
from tinygrad.runtime.autogen import opencl as tinygrad_cl
from tinygrad.runtime.ops_cl import CLDevice
from tinygrad.uop.ops import Ops

from modeld.errors import ModeldError

# A quotient is rounded once, as in ONNX and numpy; without this entry tinygrad multiplies by the
# rounded reciprocal, which moves quantised values across a tie.
OpenCLRenderer.code_for_op = {
    **OpenCLRenderer.code_for_op,
    Ops.FDIV: lambda a, b, dtype: f"({a}/{b})",
}

_used: list[cl.Device] = []


def use_device(device: cl.Device) -> None:
    """Let tinygrad run on `device`. Once tinygrad has opened a device it cannot change it.

    Raises ModeldError when this process already compiled for another device.
    """
    if not _used:
        # tinygrad would take the first platform whatever the user selected.
        handle = ctypes.cast(device.int_ptr, tinygrad_cl.cl_device_id)
        CLDevice.device_ids = (tinygrad_cl.cl_device_id * 1)(handle)
        _used.append(device)
    opened = Device["CL"].device_name.strip()
    if _used[0] != device or opened != device.name.strip():
        raise ModeldError(
            f"this process already compiles for {opened!r}; "
            f"compile for {device.name.strip()!r} in a process of its own"
        )
