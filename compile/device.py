"""Making tinygrad use the OpenCL device that the artifact is built for."""

import ctypes
from collections.abc import Sequence
from typing import Any

# Before tinygrad: it crashes when it opens OpenCL first.
import pyopencl as cl
from tinygrad.device import Device
from tinygrad.runtime import ops_cl
from tinygrad.runtime.autogen import opencl as tinygrad_cl
from tinygrad.runtime.ops_cl import CLDevice

import compile.workers  # noqa: F401 - changes what tinygrad compiles with
from compile.renderer import QuotientRenderer
from modeld.errors import ModeldError

# What every program is built with. A number below 1.2e-38 takes a processor a hundred times as
# long as any other, and networks trained with weight decay are full of them.
BUILD_OPTIONS = "-cl-denorms-are-zero"


class _OptionsCompiler(ops_cl.CLCompiler):  # type: ignore[misc]
    """Keeps its programs apart from those that were compiled without the options."""

    def __init__(self, device: CLDevice, key: str) -> None:
        super().__init__(device, f"{key}{BUILD_OPTIONS.replace('-', '_')}")


_build_program = tinygrad_cl.clBuildProgram


def _build_with_options(program: Any, count: int, devices: Any, _: Any, *rest: Any) -> int:
    status: int = _build_program(program, count, devices, BUILD_OPTIONS.encode(), *rest)
    return status


# tinygrad's device makes its renderer and its compiler from these names; it has no options.
ops_cl.OpenCLRenderer = QuotientRenderer
ops_cl.CLCompiler = _OptionsCompiler
tinygrad_cl.clBuildProgram = _build_with_options

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
