"""Runs one of the compiler's kernels on the OpenCL device, without tinygrad."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import pyopencl as cl
from onnx import TensorProto, helper, numpy_helper

from compile.device import BUILD_OPTIONS
from compile.kernels.launch import Kernel
from compile.kernels.layout import BLOCKED, LANES, NHWC, pad_channels
from modeld.opencl import select_device

Array = npt.NDArray[np.float32]

# Written into every output first, so that an element nobody writes is seen.
UNTOUCHED = np.float32(-12345.5)


class Bench:
    """A device with a queue."""

    def __init__(self) -> None:
        self._context = cl.Context([select_device()])
        self._queue = cl.CommandQueue(self._context)
        self._functions: dict[str, cl.Kernel] = {}

    def compile(self, kernels: Iterable[Kernel]) -> None:
        """Build one program of several kernels, which takes less time than one for each."""
        unique = {kernel.name: kernel.source for kernel in kernels}
        program = cl.Program(self._context, "".join(unique.values())).build(BUILD_OPTIONS)
        self._functions |= {name: cl.Kernel(program, name) for name in unique}

    def run(
        self, kernel: Kernel, outputs: Sequence[Sequence[int]], inputs: Sequence[Array]
    ) -> list[Array]:
        """The outputs that the kernel computes of its inputs."""
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        results = [np.full(shape, UNTOUCHED, np.float32) for shape in outputs]
        arrays = [np.ascontiguousarray(a, np.float32) for a in (*results, *inputs)]
        buffers = [cl.Buffer(self._context, flags, hostbuf=array) for array in arrays]
        if kernel.name not in self._functions:
            self.compile([kernel])
        function = self._functions[kernel.name]
        function.set_args(*buffers)
        cl.enqueue_nd_range_kernel(self._queue, function, kernel.global_size, kernel.local_size)
        for result, buffer in zip(results, buffers, strict=False):
            cl.enqueue_copy(self._queue, result, buffer)
        return results


def reference(
    x: Array,
    weights: Array,
    bias: Array,
    operator: str = "Conv",
    **attributes: object,
) -> Array:
    """What onnxruntime says to one convolution."""
    node = helper.make_node(operator, ["x", "w", "b"], ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": x})
    return np.asarray(result, np.float32)


def store(planes: Array, layout: str) -> Array:
    """(N, C, H, W) as it lies in memory; channels that do not exist are NaN."""
    if layout == NHWC:
        return np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
    if layout != BLOCKED:
        return planes
    batch, channels, height, width = planes.shape
    padded = pad_channels(planes, 1).reshape(batch, -1, LANES, height, width).copy()
    padded.reshape(batch, -1, height, width)[:, channels:] = np.nan
    return np.ascontiguousarray(padded.transpose(0, 1, 3, 4, 2))


def load(stored: Array, layout: str, channels: int) -> Array:
    """The inverse of `store`."""
    if layout == NHWC:
        return stored.transpose(0, 3, 1, 2)
    if layout != BLOCKED:
        return stored
    batch, _, height, width, _ = stored.shape
    return stored.transpose(0, 1, 4, 2, 3).reshape(batch, -1, height, width)[:, :channels]
