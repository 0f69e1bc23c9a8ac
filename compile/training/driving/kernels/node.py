"""An OpenCL kernel with its gradient as a node of the tinygrad graph."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from tinygrad import Tensor, dtypes
from tinygrad.device import Device
from tinygrad.uop.ops import KernelInfo, Ops, ProgramInfo, UOp

# From the gradient and the value of a kernel's output, and its inputs, to the inputs' gradients.
Gradient = Callable[[Tensor, Tensor, Sequence[Tensor]], Sequence[Tensor | None]]


@cache
def _template(name: str) -> str:
    return (Path(__file__).parent / f"{name}.cl").read_text()


def node(
    file: str,
    name: str,
    values: Mapping[str, int | float | str],
    grid: tuple[int, ...],
    outputs: Sequence[tuple[int, ...]],
    inputs: Sequence[Tensor],
    gradient: Gradient | None = None,
) -> tuple[Tensor, ...]:
    """New float32 tensors of the shapes `outputs`, written by the kernel of a template file.

    The kernel's parameters are the outputs, then the inputs; `values` are its macros and `grid`
    its work-items, all in groups of one. A kernel with a `gradient` has one output.
    """
    macros = "".join(f"#define {macro} {value}\n" for macro, value in values.items())
    source = f"#define NAME {name}\n{macros}{_template('common')}{_template(file)}"
    count, device = len(outputs), str(inputs[0].device)
    size = (*grid, 1, 1)[:3]

    def program(*buffers: UOp) -> UOp:
        sink = UOp.sink(*[b.base for b in buffers], arg=KernelInfo(name=name))
        info = ProgramInfo(
            name=name,
            global_size=size,
            local_size=(1, 1, 1),
            globals=tuple(range(len(buffers))),
            outs=tuple(range(count)),
            ins=tuple(range(count, len(buffers))),
            target=Device[device].renderer.target,
        )
        lines = UOp(Ops.LINEAR, src=(*sink.src, sink))
        texts = (UOp(Ops.SOURCE, arg=source), UOp(Ops.BINARY, arg=source.encode()))
        return UOp(Ops.PROGRAM, src=(sink, lines, *texts), arg=info)

    fresh = [Tensor.empty(*shape, dtype=dtypes.float32, device=device) for shape in outputs]
    placed = [tensor.contiguous() for tensor in inputs]
    results: list[Tensor] = fresh[0].custom_kernel(
        *fresh[1:], *placed, fxn=program, grad_fxn=_backward(gradient) if gradient else None
    )
    return tuple(results[:count])


def _backward(gradient: Gradient) -> Callable[[UOp, UOp], tuple[UOp | None, ...]]:
    """`gradient` as tinygrad calls it: with nodes, and the call whose first source is its program.

    The output comes next among the sources and has no gradient of its own.
    """

    def backward(grad: UOp, call: UOp) -> tuple[UOp | None, ...]:
        inputs = [Tensor(source) for source in call.src[2:]]
        output = Tensor(call.src[1].after(call))
        found = gradient(Tensor(grad).contiguous(), output, inputs)
        return (None, *(None if g is None else g.uop for g in found))

    return backward
