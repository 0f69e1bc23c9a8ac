"""Making tinygrad use the OpenCL device that the artifact is built for."""

import ctypes
from collections.abc import Sequence

# Before tinygrad: it crashes when it opens OpenCL first.
import pyopencl as cl
from tinygrad.device import Device
from tinygrad.runtime import ops_cl
from tinygrad.runtime.autogen import opencl as tinygrad_cl
from tinygrad.runtime.ops_cl import CLDevice

from compile.renderer import QuotientRenderer
from modeld.errors import ModeldError

# tinygrad's device makes its renderer from this name.
ops_cl.OpenCLRenderer = QuotientRenderer

_used: list[cl.Device] = []


def use_device(device: cl.Device) -> None:
    """Let tinygrad run on `device`. Once tinygrad has opened a device it cannot change it.

    Raises ModeldError when this process already compiled for another device.
    """
    use_devices([device])


def use_devices(devices: Sequence[cl.Device]) -> None:
    """Let tinygrad run on several devices, `CL:0`, `CL:1`, … in this order; see `use_device`."""
    if Device.DEFAULT != "CL":
        raise ModeldError(f"DEV={Device.DEFAULT} is set; unset it, artifacts are made with OpenCL")
    if not _used:
        # tinygrad would take the first platform whatever the user selected.
        handles = [ctypes.cast(device.int_ptr, tinygrad_cl.cl_device_id) for device in devices]
        CLDevice.device_ids = (tinygrad_cl.cl_device_id * len(handles))(*handles)
        _used.extend(devices)
    opened, wanted = Device["CL"].device_name.strip(), devices[0].name.strip()
    if _used != list(devices) or opened != wanted:
        raise ModeldError(
            f"this process already compiles for {opened!r}; "
            f"compile for {wanted!r} in a process of its own"
        )
