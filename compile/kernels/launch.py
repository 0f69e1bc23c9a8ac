"""An OpenCL kernel written by hand as a node of the tinygrad graph."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tinygrad import Tensor, dtypes
from tinygrad.device import Device
from tinygrad.dtype import DType
from tinygrad.renderer import Estimates
from tinygrad.uop.ops import KernelInfo, Ops, ProgramInfo, UOp

from compile.attribution import LABEL_PREFIX


@dataclass(frozen=True)
class Kernel:
    """A program with one kernel: OpenCL C, its name and the work-items it is launched with.

    Sources of several kernels may stand in one program. `local_size` is (1, 1, 1) for kernels
    whose work-items are whole tiles. `macs` are the multiply-accumulates by the definition of the
    ONNX node.
    """

    name: str
    source: str
    global_size: tuple[int, int, int]
    local_size: tuple[int, int, int] = (1, 1, 1)
    macs: int = 0


@cache
def template(*names: str) -> str:
    """The text of template files of this package, one after the other."""
    return "".join((Path(__file__).parent / f"{name}.cl").read_text() for name in names)


def defines(values: dict[str, int | str]) -> str:
    """One `#define` line per value, in the given order."""
    return "".join(f"#define {name} {value}\n" for name, value in values.items())


_FUNCTION = re.compile(r"^(?:static|INLINE)\b[^;{(]*?\b(\w+)\(", re.MULTILINE)
_MACRO = re.compile(r"^#define (\w+)", re.MULTILINE)


def make_kernel(
    name: str,
    source: str,
    global_size: tuple[int, int, int],
    local_size: tuple[int, int, int] = (1, 1, 1),
    macs: int = 0,
) -> Kernel:
    """The kernel that `source` calls NAME, in a text that can share a program with others.

    Its name ends with a digest of the text, its functions get that name too, and its macros end
    with it.
    """
    unique = f"{name}_{hashlib.sha256(source.encode()).hexdigest()[:6]}"
    functions = dict.fromkeys(_FUNCTION.findall(source))
    named = defines({"NAME": unique, **{f: f"{f}_{unique}" for f in functions}})
    macros = dict.fromkeys(_MACRO.findall(named + source))
    ended = "".join(f"#undef {macro}\n" for macro in macros)
    return Kernel(unique, named + source + ended, global_size, local_size, macs)


def launch(
    kernel: Kernel,
    outputs: Sequence[tuple[int, ...]],
    inputs: Sequence[Tensor],
    label: str,
    types: Sequence[DType] | None = None,
) -> tuple[Tensor, ...]:
    """New tensors of the shapes `outputs`, of `types` or else float32, written by `kernel`.

    The kernel's parameters are the outputs, then the inputs. Global sizes count work-items and
    are multiples of the local size. `label` holds the names of the ONNX nodes, one a line.
    """
    groups = tuple(
        whole // local for whole, local in zip(kernel.global_size, kernel.local_size, strict=True)
    )
    count = len(outputs)

    def program(*buffers: UOp) -> UOp:
        sink = UOp.sink(
            *[b.base for b in buffers],
            arg=KernelInfo(name=LABEL_PREFIX + label, estimates=Estimates(ops=2 * kernel.macs)),
        )
        info = ProgramInfo(
            name=kernel.name,
            global_size=groups,
            local_size=kernel.local_size,
            globals=tuple(range(len(buffers))),
            outs=tuple(range(count)),
            ins=tuple(range(count, len(buffers))),
            target=Device.default.renderer.target,
        )
        source = UOp(Ops.SOURCE, arg=kernel.source)
        binary = UOp(Ops.BINARY, arg=kernel.source.encode())
        lines = UOp(Ops.LINEAR, src=(*sink.src, sink))
        return UOp(Ops.PROGRAM, src=(sink, lines, source, binary), arg=info)

    types = types or [dtypes.float32] * count
    fresh = [Tensor.empty(*shape, dtype=kind) for shape, kind in zip(outputs, types, strict=True)]
    # One number many times over has no device, and no buffer, until it is given one.
    placed = [t.clone("CL") if t.uop.device is None else t.contiguous() for t in inputs]
    results: list[Tensor] = fresh[0].custom_kernel(*fresh[1:], *placed, fxn=program)
    return tuple(results[:count])
