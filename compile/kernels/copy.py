"""Tensors put together of pieces of others: what queues of past values are after a turn."""

from collections.abc import Sequence
from dataclasses import dataclass

from compile.kernels.launch import Kernel, make_kernel, template
from compile.kernels.layout import ceil_div

# Bytes of a work-item.
_CHUNK = 32 << 10


@dataclass(frozen=True)
class Piece:
    """`count` neighbouring elements from `start` on, of the kernel's input number `source`."""

    source: int
    start: int
    count: int


@dataclass(frozen=True)
class Joined:
    """A tensor of this shape that is all `pieces`, one after the other."""

    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Copies:
    """Tensors that one launch makes of `inputs` others; a tensor has the type of its pieces."""

    inputs: int
    items: tuple[Joined, ...]


def render(copies: Copies, sizes: Sequence[int]) -> Kernel:
    """The kernel; parameters are the outputs, then the inputs. `sizes` are the bytes of an element
    of each output."""
    branches, last, total = [], 0, 0
    for n, (item, size) in enumerate(zip(copies.items, sizes, strict=True)):
        to = 0
        for piece in item.pieces:
            count, first = piece.count * size, last
            last += ceil_div(count, _CHUNK)
            at = f"(item - {first}) * {_CHUNK}"
            branches.append(
                f"if (item < {last}) copy_bytes(out{n} + {to} + {at}, "
                f"in{piece.source} + {piece.start * size} + {at}, min({_CHUNK}, {count} - {at}));"
            )
            to += count
        total += to
    parameters = [f"__global uchar *restrict out{n}" for n in range(len(copies.items))]
    parameters += [f"__global const uchar *restrict in{n}" for n in range(copies.inputs)]
    source = (
        template("copy")
        + "\n__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(\n    "
        + ",\n    ".join(parameters)
        + ") {\n  const int item = get_global_id(0);\n  "
        + "\n  else ".join(branches)
        + "\n}\n"
    )
    return make_kernel(f"copy_{total}", source, (last, 1, 1))
