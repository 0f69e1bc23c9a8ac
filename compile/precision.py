"""`--dtype float16`: weights and values between kernels in 16 bits, arithmetic and sums in float32.

Which values lie in memory decides where they are rounded: what an elementwise operator takes up in
the kernel that makes it never leaves its registers, and stays float32.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from compile.graph import node_label, node_reads
from compile.importer import ImportedModel
from compile.operators import ELEMENTWISE, MOVEMENT
from compile.progress import Progress
from compile.values import HalfPlan
from compile.verify import SECOND_IMPLEMENTATIONS, CannotRunError, with_all_values
from modeld.errors import ModeldError
from modeld.files import write_result

Array = npt.NDArray[np.generic]

LARGEST = float(np.finfo(np.float16).max)
# Below it float16 has fewer bits, and many devices none.
SMALLEST_NORMAL = float(np.finfo(np.float16).tiny)

# Other inputs than those of the known runs can give larger values.
_MARGIN = 4.0

# A spelled-out activation reads its operand this many times at most.
_LONGEST_CHAIN = 8


@dataclass(frozen=True)
class ValueRange:
    """What a float32 tensor held in the known runs; `node` computes it, empty for a weight.

    `smallest` is the smallest magnitude that is not zero, `overflowing` counts elements beyond
    float16, `vanishing` those that are below its smallest normal number and not zero.
    """

    tensor: str
    node: str
    elements: int
    largest: float
    smallest: float
    overflowing: int
    vanishing: int

    @property
    def fits(self) -> bool:
        """Whether float16 holds the tensor: nothing too large, and not everything too small.

        Computed values have to leave a margin.
        """
        largest = self.largest * (_MARGIN if self.node else 1.0)
        return largest <= LARGEST and (self.largest == 0 or self.largest >= SMALLEST_NORMAL)


def measure_ranges(
    model: onnx.ModelProto,
    base_dir: Path,
    constants: Mapping[str, Array],
    samples: Iterable[Mapping[str, Array]],
) -> tuple[ValueRange, ...]:
    """Ranges of all float32 weights and values of `model` over `samples`, in graph order.

    Raises ModeldError when no implementation can give the values.
    """
    nodes = {name: node_label(node) for node in model.graph.node for name in node.output}
    found = {
        tensor.name: _range(tensor.name, "", numpy_helper.to_array(tensor, str(base_dir)))
        for tensor in model.graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT
    }
    for inputs in samples:
        values = _all_values(model, base_dir, {**inputs, **constants})
        for name, node in nodes.items():
            value = values.get(name)
            if isinstance(value, np.ndarray) and value.dtype == np.float32:
                present = _range(name, node, value)
                found[name] = _union(found[name], present) if name in found else present
    return tuple(found.values())


def _all_values(
    model: onnx.ModelProto, base_dir: Path, inputs: dict[str, Array]
) -> dict[str, Array]:
    complete, reasons = with_all_values(model), []
    for implementation in SECOND_IMPLEMENTATIONS:
        try:
            return implementation(complete, base_dir)(inputs)
        except CannotRunError as error:
            reasons.append(str(error))
    raise ModeldError(
        f"--dtype float16 needs the model's values, and {'; '.join(reasons)}; build in float32"
    )


def _range(tensor: str, node: str, array: Array) -> ValueRange:
    sizes = np.abs(array.astype(np.float64)).reshape(-1)
    # Infinities are the model's own and float16 has them too.
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not sizes.size:
        return ValueRange(tensor, node, array.size, 0.0, 0.0, 0, 0)
    return ValueRange(
        tensor,
        node,
        array.size,
        float(sizes.max()),
        float(sizes.min()),
        int(np.count_nonzero(sizes > LARGEST)),
        int(np.count_nonzero(sizes < SMALLEST_NORMAL)),
    )


def _union(first: ValueRange, second: ValueRange) -> ValueRange:
    smallest = [r.smallest for r in (first, second) if r.smallest]
    return ValueRange(
        first.tensor,
        first.node,
        first.elements,
        max(first.largest, second.largest),
        min(smallest, default=0.0),
        max(first.overflowing, second.overflowing),
        max(first.vanishing, second.vanishing),
    )


def plan_half(model: onnx.ModelProto, ranges: Iterable[ValueRange]) -> HalfPlan:
    """Which values to round: those that lie in memory and fit, outputs of the model excepted."""
    kept = frozenset(r.tensor for r in ranges if not r.fits)
    values = _Values(model.graph)
    stored: set[str] = set()
    for node in model.graph.node:
        if node.op_type not in MOVEMENT:
            stored.update(name for name in node.output if values.lies_in_memory(name, stored))
    return HalfPlan(frozenset(stored - kept), kept)


class _Values:
    """Who makes and who reads the values of a graph."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._nodes = graph.node
        self._outputs = {output.name for output in graph.output}
        self._readers: dict[str, list[int]] = {}
        # Of more than elementwise work on inputs; so little is done anew where it is read.
        self._made: set[str] = set()
        for position, node in enumerate(graph.node):
            reads = set(node_reads(node))
            for name in reads:
                self._readers.setdefault(name, []).append(position)
            cheap = node.op_type in ELEMENTWISE or node.op_type in MOVEMENT
            if not cheap or reads & self._made:
                self._made.update(name for name in node.output if name)

    def lies_in_memory(self, name: str, stored: set[str]) -> bool:
        """Whether `name` is written to memory, where the `stored` values before it are."""
        return (
            name in self._made and name not in self._outputs and not self._is_taken_up(name, stored)
        )

    def _is_taken_up(self, name: str, stored: set[str]) -> bool:
        """Whether all that reads `name` is one elementwise chain, whose last operand it is."""
        ahead, chain = list(self._readers.get(name, ())), {name}
        for _ in range(_LONGEST_CHAIN):
            if not ahead or self._nodes[ahead[0]].op_type not in ELEMENTWISE:
                return False
            node = self._nodes[ahead[0]]
            if len(ahead) == 1:
                return not self._waiting(node) - chain - stored
            chain.update(node.output)
            following = [r for output in node.output for r in self._readers.get(output, ())]
            ahead = sorted({*ahead[1:], *following})
        return False

    def _waiting(self, node: onnx.NodeProto) -> set[str]:
        """Operands of `node` that only it reads, each the end of a kernel of its own."""
        return {n for n in node.input if n in self._made and len(self._readers[n]) == 1}


def report(ranges: Iterable[ValueRange], plan: HalfPlan) -> Iterator[str]:
    """Tab-separated lines, with a head: one tensor each, what it held and what becomes of it."""
    yield "\t".join(
        ("tensor", "node", "elements", "largest", "smallest", "overflowing", "vanishing", "kept as")
    )
    for r in ranges:
        how = "float16" if r.tensor in plan.stored or not r.node else "register"
        numbers = (r.elements, f"{r.largest:.4g}", f"{r.smallest:.4g}", r.overflowing, r.vanishing)
        kept = "float32" if r.tensor in plan.kept else how
        yield "\t".join((r.tensor, r.node or "weight", *map(str, numbers), kept))


def summary(ranges: Iterable[ValueRange]) -> str:
    """One line that names the tensors which overflow or vanish; the largest first."""
    listed = sorted((r for r in ranges if not r.fits), key=lambda r: -r.largest)
    named = ", ".join(f"{r.tensor} ({r.largest:.3g})" for r in listed[:8])
    more = f" and {len(listed) - 8} more" if len(listed) > 8 else ""
    return (
        f"float32 stay {named}{more}: not within float16" if listed else "all tensors fit float16"
    )


def write_report(path: Path, ranges: Iterable[ValueRange], plan: HalfPlan) -> None:
    """Write `report`. Raises ModeldError."""
    write_result(path, ("\n".join(report(ranges, plan)) + "\n").encode())


def choose_half(
    imported: ImportedModel,
    constants: Mapping[str, Array],
    samples: Iterable[Mapping[str, Array]],
    path: Path | None,
    progress: Progress,
) -> HalfPlan:
    """Measure and decide; the report goes to `path`, a line about it to `progress`."""
    ranges = measure_ranges(imported.model, imported.base_dir, constants, samples)
    plan = plan_half(imported.model, ranges)
    progress.note(summary(ranges))
    if path:
        write_report(path, ranges, plan)
    return plan
