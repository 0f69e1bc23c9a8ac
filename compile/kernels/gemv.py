"""Products of a vector and a matrix: dense layers at batch 1, several to a launch.

Their time is that of reading the weights once. Layers that do not depend on each other (the heads
of a network) share a launch, since handing one over costs as much as a small layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compile.kernels import epilogue
from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import LANES, Array, blocks_of, pad_channels

# Sums of a work-item: four for each block of 16 outputs.
_MAX_BLOCKS = 4


@dataclass(frozen=True)
class Product:
    """`outputs` = epilogue of `length` inputs times a packed matrix."""

    length: int
    outputs: int
    steps: tuple[str, ...] = ()

    @property
    def blocks(self) -> int:
        """Blocks of 16 outputs for one work-item: few when there are few outputs to share."""
        total = blocks_of(self.outputs)
        return next(b for b in (4, 2, 1) if b == 1 or (total % b == 0 and total >= 4 * b))

    @property
    def items(self) -> int:
        """Work-items."""
        return blocks_of(self.outputs) // self.blocks


@dataclass(frozen=True)
class Products:
    """Independent products in one launch, and the shape of each one's output."""

    items: tuple[Product, ...]
    shapes: tuple[tuple[int, ...], ...]


def pack_matrix(matrix: Array) -> Array:
    """(K, N) as the kernel reads it: blocks of 16 outputs; in it K, output."""
    padded = pad_channels(np.asarray(matrix, np.float32), axis=1)
    blocks = padded.reshape(len(matrix), -1, LANES).transpose(1, 0, 2)
    return np.ascontiguousarray(blocks.reshape(-1))


def render(products: Sequence[Product]) -> Kernel:
    """One kernel for all `products`.

    Parameters: the outputs of all; then for each its input, weights, per-channel arrays and
    tensors.
    """
    texts, branches, parameters, first = [], [], [], 0
    for n, product in enumerate(products):
        texts.append(_function(n, product))
        operands = _operands(n, product)
        parameters += operands
        last = first + product.items
        arguments = ", ".join([f"out{n}", *operands])
        branches.append(f"if (item < {last}) product{n}({arguments}, item - {first});")
        first = last
    declared = [f"__global float *restrict out{n}" for n in range(len(products))]
    declared += [f"__global const float *restrict {name}" for name in parameters]
    longest = max(products, key=lambda p: p.length * p.outputs)
    name = f"dense_{longest.length}_{longest.outputs}" + (
        f"_and_{len(products) - 1}" if len(products) > 1 else ""
    )
    kernel = (
        "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(\n    "
        + ",\n    ".join(declared)
        + ") {\n  const int item = get_global_id(0);\n  "
        + "\n  else ".join(branches)
        + "\n}\n"
    )
    source = (
        epilogue.helpers([step for product in products for step in product.steps])
        + defines({"MAX_BLOCKS": _MAX_BLOCKS, "OUT_CHANNEL": 1})
        + template("vectors", "lanes", "gemv")
        + "".join(texts)
        + kernel
    )
    macs = sum(p.length * p.outputs for p in products)
    return make_kernel(name, source, (first, 1, 1), macs=macs)


def _operands(n: int, product: Product) -> list[str]:
    channels, tensors = epilogue.operand_counts(product.steps)
    names = ["in", "weights"] + [f"channel{i}_" for i in range(channels)]
    return [f"{name}{n}" for name in names + [f"tensor{i}_" for i in range(tensors)]]


def _function(n: int, product: Product) -> str:
    exists = "16" if product.outputs % LANES == 0 else f"min(16, {product.outputs} - block * 16)"
    return f"""
#undef LOAD_CHANNEL
#undef LOAD_TENSOR
#define LOAD_CHANNEL(array) load16(block, array)
#define LOAD_TENSOR(array) load_lanes(array + block * 16, lanes)
static void product{n}(__global float *restrict out, __global const float *restrict in,
    __global const float *restrict weights{epilogue.parameters(product.steps)}, const int item) {{
  float16 sum[MAX_BLOCKS];
  multiply(sum, in, weights + item * {product.blocks * product.length * LANES}, {product.length},
           {product.blocks});
#pragma unroll
  for (int b = 0; b < {product.blocks}; b++) {{
    const int block = item * {product.blocks} + b, lanes = {exists};
    float16 v = sum[b];
    {epilogue.body(product.steps)}
    store_lanes(v, out + block * 16, lanes);
  }}
}}
"""
