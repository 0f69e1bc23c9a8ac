"""Kernels that do not depend on each other in one launch."""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from compile.kernels.launch import Kernel

# Operators of the private domain that can share a launch: each writes one tensor of float32.
JOINABLE = frozenset(
    {
        "Convolution",
        "Depthwise",
        "DotProductAttention",
        "Elementwise",
        "Expansion",
        "Interpolate",
        "Mix",
        "Planar",
        "Pool",
        "Rows",
        "Separable",
        "Stack",
        "Winograd",
    }
)
_ENTRY = "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME("


@dataclass(frozen=True)
class Member:
    """A node of the private domain among others: its attributes, and which inputs are its own."""

    operator: str
    spec: str
    tile: tuple[int, ...]
    shape: tuple[int, ...]
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Joint:
    """Nodes that share a launch; each makes one output."""

    members: tuple[Member, ...]


def render(
    kernels: Sequence[Kernel], inputs: Sequence[Sequence[int]], types: Sequence[str]
) -> Kernel:
    """One kernel that does what all do, whose work-groups are single work-items.

    Parameters are the outputs of all, then the inputs, whose elements are of `types`; `inputs` says
    which of them each kernel reads. Equal kernels are one function, and those with most to do are
    first.
    """
    order = sorted(range(len(kernels)), key=lambda n: (-kernels[n].macs, kernels[n].name))
    read = repr([(kernels[n].name, inputs[n]) for n in order])
    digest = hashlib.sha256(read.encode()).hexdigest()[:6]
    texts, branches, first = [], [], 0
    for kernel in dict.fromkeys(kernels[n] for n in order):
        function = f"{kernel.name}_{digest}"
        texts.append(_function(kernel.source.replace(kernel.name, function)))
        equal = [n for n in order if kernels[n] == kernel]
        uses = [[f"out{n}", *(f"in{i}" for i in inputs[n])] for n in equal]
        branches.append(_branch(kernel, function, uses, first))
        first += math.prod(kernel.global_size) * len(equal)
    parameters = [f"__global float *restrict out{n}" for n in range(len(kernels))]
    parameters += [f"__global const {kind} *restrict in{n}" for n, kind in enumerate(types)]
    name = f"{kernels[order[0]].name.rpartition('_')[0]}_and_{len(kernels) - 1}_{digest}"
    entry = f"""
{_ENTRY.replace("NAME", name)}
    {", ".join(parameters)}) {{
  int item = get_global_id(0);
  {" else ".join(branches)}
}}
"""
    macs = sum(kernel.macs for kernel in kernels)
    return Kernel(name, "".join(texts) + entry, (first, 1, 1), macs=macs)


def _function(source: str) -> str:
    """The kernel as a function that is told its place in the global size."""
    head = "static void NAME(const int id0, const int id1, const int id2, "
    return re.sub(r"get_global_id\((\d)\)", r"id\1", source.replace(_ENTRY, head))


def _branch(kernel: Kernel, function: str, uses: Sequence[Sequence[str]], first: int) -> str:
    """Work-items from `first` on call the function, with the arguments of one use after another."""
    width, height, _ = kernel.global_size
    size = math.prod(kernel.global_size)
    places = [f"item % {width}", f"item / {width} % {height}", f"item / {width * height}"]
    chosen = [_chosen(names) for names in zip(*uses, strict=True)]
    arguments = ", ".join([*places, *chosen])
    return f"""if (item < {first + size * len(uses)}) {{
    item -= {first};
    const int n = item / {size};
    item %= {size};
    {function}({arguments});
  }}"""


def _chosen(names: Sequence[str]) -> str:
    """The `n`-th of the names, in OpenCL C."""
    if len(set(names)) == 1:
        return names[0]
    return "".join(f"n == {n} ? {name} : " for n, name in enumerate(names[:-1])) + names[-1]
