"""Matrix products."""

from tinygrad import Tensor

from compile.ops.registry import Op


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """numpy's matrix product."""
    return a.matmul(b)


def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 0,
) -> Tensor:
    """alpha * A B + beta * C, each matrix transposed as asked."""
    product = (a.permute(1, 0) if transA else a) @ (b.permute(1, 0) if transB else b)
    product = product if alpha == 1.0 else product * alpha
    if c is None or beta == 0.0:
        return product
    return product + (c if beta == 1.0 else c * beta)


def einsum(*inputs: Tensor, equation: str) -> Tensor:
    """Products summed over the indices that the equation drops."""
    return Tensor.einsum(equation.replace(" ", ""), *inputs)


def determinant(x: Tensor) -> Tensor:
    """Determinant of the last two axes, by elimination with partial pivoting."""
    size = x.shape[-1]
    rest = x.reshape(-1, size, size)
    result = Tensor.ones(rest.shape[0], dtype=x.dtype, buffer=False)
    for _ in range(size - 1):
        column = rest[:, :, 0]
        pivot = column.abs().argmax(1, keepdim=True)
        rows = Tensor.arange(rest.shape[1]).reshape(1, -1)
        chosen = (rows == pivot).cast(x.dtype)
        # The pivot row changes places with the first one; each swap turns the sign.
        top = (chosen.unsqueeze(2) * rest).sum(1)
        swapped = (chosen.unsqueeze(2) != 0).where(rest[:, :1], rest)
        lead = top[:, 0]
        sign = (pivot.reshape(-1) == 0).where(1, -1).cast(x.dtype)
        result = result * lead * sign
        factor = swapped[:, 1:, :1] / (lead == 0).where(1, lead).reshape(-1, 1, 1)
        # In memory: otherwise every step would compute all earlier ones for each of its elements.
        rest = (swapped[:, 1:] - factor * top.unsqueeze(1))[:, :, 1:].contiguous()
    return (result * rest[:, 0, 0]).reshape(x.shape[:-2])


OPS = (
    Op("MatMul", matmul),
    Op("Gemm", gemm),
    Op("Einsum", einsum),
    Op("Det", determinant),
)
