"""From a tinygrad function to the ordered list of OpenCL launches that compute it.

tinygrad's capture hook records the schedule of one run; nothing is executed meanwhile. What comes
out names every storage by its role and every launch by its source, so that memory can be planned
and the list replayed without tinygrad.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.engine.realize import (
    capturing,
    get_call_arg_uops,
    get_call_outs_ins,
    lower_and_compile,
    run_linear,
)
from tinygrad.helpers import is_image_shape
from tinygrad.uop.ops import Ops, ProgramInfo, UOp

from compile.values import from_numpy_dtype
from modeld.errors import ModeldError
from modeld.manifest import Image

Array = npt.NDArray[np.generic]
# Enough for every core to have work until the end, few enough to tell how long it takes.
_COMPILED_AT_ONCE = 4 * (os.cpu_count() or 1)

GraphFunction = Callable[[Mapping[str, Tensor]], dict[str, Tensor]]


@dataclass(frozen=True)
class Storage:
    """Memory that launches read or write: `role` is input, weight, scratch or output.

    `name` is the tensor's name for inputs, outputs and weights; `data` holds a weight's values.
    """

    role: str
    name: str
    bytes: int
    data: Array | None = None


@dataclass(frozen=True)
class Operand:
    """A launch argument: bytes [offset, offset + bytes) of storage number `storage`."""

    storage: int
    offset: int
    bytes: int
    access: str
    image: Image | None = None


@dataclass(frozen=True)
class Launch:
    """One kernel launch; sizes count work-items. `label` is the name given to the kernel graph."""

    source: str
    kernel: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    operands: tuple[Operand, ...]
    label: str


@dataclass(frozen=True)
class Capture:
    """The captured program. `outputs` maps each output tensor to its storage."""

    launches: tuple[Launch, ...]
    storages: tuple[Storage, ...]
    outputs: dict[str, int]


def materialize(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Give each tensor a buffer of its own, so that it can be an output or the next state.

    Inputs handed through, constants and repeated values are copied; in particular the next value
    of a state never lies in the buffer of the present one.
    """
    first: dict[UOp, Tensor] = {}
    result = {}
    for name, tensor in tensors.items():
        uop = tensor.uop
        shared = uop in first or uop.device is None or uop.has_buffer_identity()
        result[name] = first.get(uop, tensor).clone("CL") if shared else tensor.contiguous()
        first.setdefault(uop, result[name])
    return result


def device_tensor(array: Array) -> Tensor:
    """`array` in a device buffer of its own.

    Made flat: tinygrad takes an array without dimensions for a constant, and would write its value
    into the kernels.
    """
    flat = np.asarray(array, order="C").reshape(-1)
    return Tensor(flat, dtype=from_numpy_dtype(array.dtype)).realize().reshape(array.shape)


class CapturedRun:
    """A captured function that can be described and, for the check, run by tinygrad."""

    def __init__(
        self,
        function: GraphFunction,
        inputs: Mapping[str, Tensor],
        names: Mapping[int, str],
        on_compiled: Callable[[int, int], None],
    ) -> None:
        """Capture `function` called with realized `inputs`.

        `names` gives the name of each constant by the id of its buffer's UOp; `on_compiled` is
        told (kernels done, kernels in all). Raises ModeldError when a part of it would not run as
        an OpenCL kernel.
        """
        self._input_names = sorted(inputs)
        buffers = [inputs[name].uop.base for name in self._input_names]
        self._outputs, schedule = _record(function, inputs)
        slots = {
            buffer: UOp.param(slot, buffer.dtype, buffer.shape, buffer.device)
            for slot, buffer in enumerate(buffers)
        }
        # The launches must name their inputs and not hold them, as tinygrad's own JIT does.
        compiled = _compile(schedule.substitute(slots, walk=True), on_compiled)
        outputs = {tensor.uop.base for tensor in self._outputs.values()}
        constant, self._linear = _split_constant(compiled, outputs)
        run_linear(constant, {}, jit=True)
        self.program, self._buffers = _describe(
            self._linear, self._outputs, self._input_names, names
        )

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run the captured launches by tinygrad on `inputs`; all outputs by name."""
        tensors = [device_tensor(inputs[name]) for name in self._input_names]
        buffers = [tensor.uop.base for tensor in tensors]
        run_linear(self._linear, {}, input_uops=buffers, jit=True)
        return {name: tensor.numpy() for name, tensor in self._outputs.items()}

    def intermediates(self) -> dict[int, Array]:
        """What the scratch storages hold after the last run, flat, by storage."""
        return {
            index: self._buffers[index].buffer.numpy()
            for index, storage in enumerate(self.program.storages)
            if storage.role == "scratch"
        }


class _Recorder:
    """What tinygrad's capture hook calls instead of running a schedule."""

    def __init__(self) -> None:
        self.calls: list[UOp] = []

    def add_linear(self, linear: UOp, var_vals: dict[str, int]) -> None:
        if var_vals:
            raise ModeldError(
                f"the model has variable sizes {', '.join(sorted(var_vals))}; give --dim NAME=N"
            )
        self.calls.extend(linear.src)


def _record(function: GraphFunction, inputs: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], UOp]:
    recorder = _Recorder()
    capturing.append(recorder)
    try:
        outputs = function(inputs)
        # One realize for all: separate ones compute shared parts again.
        Tensor.realize(*outputs.values())
    finally:
        capturing.clear()
    return outputs, UOp(Ops.LINEAR, src=tuple(recorder.calls))


def _compile(linear: UOp, on_compiled: Callable[[int, int], None]) -> UOp:
    """`linear` with its kernels generated, a few at a time on all cores so that one can watch."""
    kernels = list({call.src[0].key: call for call in linear.src}.values())
    for start in range(0, len(kernels), _COMPILED_AT_ONCE):
        on_compiled(start, len(kernels))
        lower_and_compile(UOp(Ops.LINEAR, src=tuple(kernels[start : start + _COMPILED_AT_ONCE])))
    return lower_and_compile(linear)


def _split_constant(linear: UOp, outputs: set[UOp]) -> tuple[UOp, UOp]:
    """(launches that depend on no input, all others).

    The first are run once, now, and what they write becomes weights.
    """
    varying = set(outputs)
    constant, kept = [], []
    for call in linear.src:
        arguments = [_storage_of(argument)[0] for argument in get_call_arg_uops(call)]
        if any(base in varying or base.op is Ops.PARAM for base in arguments):
            kept.append(call)
            varying |= {arguments[position] for position in get_call_outs_ins(call)[0]}
        else:
            constant.append(call)
    return linear.replace(src=tuple(constant)), linear.replace(src=tuple(kept))


def _describe(
    linear: UOp,
    outputs: Mapping[str, Tensor],
    input_names: Sequence[str],
    constant_names: Mapping[int, str],
) -> tuple[Capture, tuple[UOp, ...]]:
    """The program, and the buffer of each of its storages."""
    written = {_storage_of(call.src[1 + i])[0] for call in linear.src for i in _written(call)}
    storages: list[Storage] = []
    indices: dict[UOp, int] = {}
    output_of = {tensor.uop.base: name for name, tensor in outputs.items()}

    def index_of(base: UOp) -> int:
        if base not in indices:
            indices[base] = len(storages)
            storages.append(describe_storage(base))
        return indices[base]

    def describe_storage(base: UOp) -> Storage:
        size = base.nbytes()
        if base.op is Ops.PARAM:
            return Storage("input", input_names[base.arg.slot], size)
        if base in output_of:
            return Storage("output", output_of[base], size)
        if base in written:
            return Storage("scratch", "", size)
        name = constant_names.get(id(base), f"constant_{len(storages)}")
        return Storage("weight", name, size, base.buffer.numpy())

    launches = tuple(_launch(call, index_of) for call in linear.src)
    output_storages = {name: index_of(tensor.uop.base) for name, tensor in outputs.items()}
    return Capture(launches, tuple(storages), output_storages), tuple(indices)


def _written(call: UOp) -> Sequence[int]:
    program = call.src[0]
    if program.op is not Ops.PROGRAM or not isinstance(program.arg, ProgramInfo):
        raise ModeldError(
            f"a step of the model became {program.op.name} ({program.arg}), which is no OpenCL "
            "kernel; this model cannot be captured"
        )
    return tuple(program.arg.outs)


def _launch(call: UOp, index_of: Callable[[UOp], int]) -> Launch:
    program, info = call.src[0], call.src[0].arg
    if info.vars:
        raise ModeldError(f"kernel {info.function_name} takes run-time sizes; give --dim NAME=N")
    arguments = [call.src[1 + position] for position in info.globals]
    operands = []
    for _, slot, dtype, shape in program.to_elf().signature:
        base, offset, size = _storage_of(arguments[slot])
        image = None
        if is_image_shape(shape):
            channel = {2: "half", 4: "float"}[dtype.itemsize]
            image = Image(shape[1], shape[0], channel, shape[1] * 4 * dtype.itemsize)
        access = _access(info, info.globals[slot])
        operands.append(Operand(index_of(base), offset, size, access, image))
    global_size, local_size = info.launch_dims({})
    if local_size is not None:
        # tinygrad counts work-groups, OpenCL work-items.
        global_size = tuple(int(g * n) for g, n in zip(global_size, local_size, strict=True))
    return Launch(
        source=program.src[2].arg,
        kernel=info.function_name,
        global_size=tuple(global_size),
        local_size=None if local_size is None else tuple(local_size),
        operands=tuple(operands),
        label=program.src[0].arg.name,
    )


def _access(info: ProgramInfo, position: int) -> str:
    reads, writes = position in info.ins, position in info.outs
    return "read_write" if reads and writes else "write" if writes else "read"


def _storage_of(argument: UOp) -> tuple[UOp, int, int]:
    """(buffer, byte offset, bytes) of a launch argument, through views of contiguous ranges."""
    offset, size, view = 0, argument.nbytes(), argument
    while view.op in (Ops.RESHAPE, Ops.BITCAST, Ops.SHRINK):
        if view.op is Ops.SHRINK:
            if len(view.shape) != 1:
                raise ModeldError(
                    f"a kernel argument is a {len(view.shape)}-dimensional view, expected a range "
                    "of a buffer; this model cannot be captured"
                )
            start = view.marg[0][0]
            offset += int(start) * view.dtype.itemsize
        view = view.src[0]
    if view.op not in (Ops.BUFFER, Ops.PARAM):
        raise ModeldError(
            f"a kernel argument is {view.op.name}, expected a buffer; this model cannot be captured"
        )
    return view, offset, size
