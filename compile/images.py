"""`--image`: weights and activations as two-dimensional images, whose cache Adreno reads through.

tinygrad lays convolutions and products out in pixels of four channels and makes an image of each
buffer whose rows keep the device's alignment; the other buffers stay buffers.
"""

import ctypes
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import pyopencl as cl
from tinygrad import Tensor, dtypes
from tinygrad.device import Device
from tinygrad.helpers import Context as TinygradContext
from tinygrad.runtime.autogen import opencl

from compile.capture import Capture
from compile.ops.registry import OpKey, OpTable
from compile.values import HalfPlan
from modeld.errors import ModeldError
from modeld.opencl import describe_device

EXTENSION = "cl_khr_image2d_from_buffer"
# Four channels of float32; alignments are given in pixels.
_PIXEL_BYTES = 16


def require_images(device: cl.Device) -> None:
    """Raise ModeldError where the device cannot make an image of a buffer."""
    info = describe_device(device)
    if EXTENSION not in info.extensions:
        raise ModeldError(
            f"--image: {info.device} on {info.platform} has no {EXTENSION}; "
            "leave --image out, or build on a device that has it"
        )


@contextmanager
def images(wanted: bool, half: HalfPlan | None) -> Iterator[None]:
    """Let tinygrad build graphs and kernels with images, of float16 where `half` says so."""
    with (
        TinygradContext(IMAGE=int(wanted), FLOAT16=int(wanted and half is not None)),
        _zeroed_memory() if wanted else nullcontext(),
    ):
        yield


@contextmanager
def _zeroed_memory() -> Iterator[None]:
    """Let every buffer of tinygrad's begin as zeros.

    Rows are padded with what no kernel writes, and a weight's padding becomes part of the artifact:
    it would be whatever lay in memory.
    """
    allocator = Device["CL"].allocator
    allocate = allocator.alloc

    def allocate_zeros(size: int, *options: Any) -> Any:
        opaque = allocate(size, *options)
        allocator._copyin(opaque, memoryview(bytearray(size)))
        return opaque

    allocator.alloc = allocate_zeros
    try:
        yield
    finally:
        del allocator.alloc


def image_table(table: OpTable) -> OpTable:
    """`table` with images for the operators, and in the cases, that tinygrad has them for."""
    return {
        key: tuple(replace(op, run=_laid_out(op.run, _FITTING.get(key))) for op in ops)
        for key, ops in table.items()
    }


def _laid_out(run: Callable[..., Any], fits: Callable[..., bool] | None) -> Callable[..., Any]:
    @functools.wraps(run)
    def laid_out(*arguments: Any, **keywords: Any) -> Any:
        with TinygradContext(IMAGE=int(fits is not None and fits(*arguments))):
            return run(*arguments, **keywords)

    return laid_out


def _fits_convolution(x: Tensor, w: Tensor, *_: Any) -> bool:
    return x.ndim == 4 and bool(x.dtype == dtypes.float32)


def _fits_product(a: Tensor, b: Tensor, *_: Any) -> bool:
    """One matrix for all of the first operand, or one for each of its matrices."""
    if a.ndim < 2 or b.ndim < 2 or a.dtype != dtypes.float32:
        return False
    return bool(prod(b.shape[:-2]) == 1 or a.shape[:-2] == b.shape[:-2])


_FITTING: dict[OpKey, Callable[..., bool]] = {
    ("", "Conv"): _fits_convolution,
    ("", "Gemm"): _fits_product,
    ("", "MatMul"): _fits_product,
}


def in_images(half: HalfPlan) -> HalfPlan:
    """`half` for a build with images: these are rounded when they are laid out, and nothing else.

    Raises ModeldError where that includes tensors that float16 cannot hold.
    """
    if half.kept:
        raise ModeldError(
            f"--image --dtype float16: {', '.join(sorted(half.kept))} do not fit float16; "
            "build with --dtype float32"
        )
    return HalfPlan(frozenset(), frozenset())


@dataclass(frozen=True)
class ImageAlignment:
    """What the device wants of images: rows in pixels, offsets in bytes; zeros without images."""

    rows: int
    offsets: int


def image_alignment(capture: Capture) -> ImageAlignment:
    """The device's wishes, where `capture` has images."""
    operands = (operand for launch in capture.launches for operand in launch.operands)
    if not any(operand.image for operand in operands):
        return ImageAlignment(0, 0)
    rows, offsets = (
        _device_number(question)
        for question in (
            opencl.CL_DEVICE_IMAGE_PITCH_ALIGNMENT,
            opencl.CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT,
        )
    )
    return ImageAlignment(rows, offsets * _PIXEL_BYTES)


def _device_number(question: int) -> int:
    """An answer that pyopencl cannot fetch."""
    answer = ctypes.c_uint32()
    size = ctypes.sizeof(answer)
    device = Device["CL"].cl_dev
    if opencl.clGetDeviceInfo(device, question, size, ctypes.byref(answer), None):
        raise ModeldError(
            f"--image: the device does not answer query 0x{question:x}; leave --image out"
        )
    return answer.value
