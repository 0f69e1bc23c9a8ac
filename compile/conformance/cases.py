"""The cases of `onnx.backend.test` that a compiled model can be asked to do.

That is: tensors in and out, shapes all numbers, element types that the artifact holds. Cases
whose name says `_expanded` repeat another one with the operator's function body in its place.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from compile.values import DTYPES, Array

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")

# A difference up to atol + rtol * |expected| passes, more where the case itself allows more.
RTOL, ATOL = 1e-3, 1e-5


@dataclass(frozen=True)
class Case:
    """A model with inputs and the outputs that the onnx package expects."""

    name: str
    model: onnx.ModelProto
    inputs: dict[str, Array]
    outputs: dict[str, Array]
    rtol: float
    atol: float

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the operators in the model, sorted."""
        return tuple(sorted({node.op_type for node in self.model.graph.node}))

    def difference(self, found: Mapping[str, Array]) -> str:
        """What is different from the expected outputs; empty when nothing is."""
        notes = (self._note(name, found[name]) for name in self.outputs)
        return "; ".join(note for note in notes if note)

    def _note(self, name: str, got: Array) -> str:
        expected = self.outputs[name]
        if (got.shape, got.dtype) != (expected.shape, expected.dtype):
            return (
                f"{name} is {got.dtype}{list(got.shape)}, "
                f"expected {expected.dtype}{list(expected.shape)}"
            )
        if expected.dtype.kind != "f":
            wrong = int(np.count_nonzero(got != expected))
        else:
            a, b = got.astype(np.float64), expected.astype(np.float64)
            wrong = int(np.count_nonzero(~np.isclose(a, b, self.rtol, self.atol, equal_nan=True)))
        return f"{wrong} of {expected.size} values of {name} differ" if wrong else ""


@cache
def load_cases() -> dict[str, Case]:
    """All cases by name, in the package's order. Takes seconds: the package computes them."""
    with warnings.catch_warnings():
        # Overflow and division by zero are what some cases are about.
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        found = [test for kind in KINDS for test in load_model_tests(kind=kind)]
        return {case.name: case for case in _cases(found)}


def _cases(tests: Sequence[Any]) -> Iterator[Case]:
    for test in tests:
        if "_expanded" in test.name:
            continue
        directory = Path(test.model_dir) if test.model_dir else None
        model = test.model if directory is None else onnx.load(directory / "model.onnx")
        graph = model.graph
        if not all(_is_static(value) for value in (*graph.input, *graph.output)):
            continue
        inputs, outputs = test.data_sets[0] if directory is None else _stored(directory)
        yield Case(
            test.name,
            model,
            {value.name: _array(i) for value, i in zip(graph.input, inputs, strict=False)},
            {value.name: _array(o) for value, o in zip(graph.output, outputs, strict=True)},
            max(test.rtol, RTOL),
            max(test.atol, ATOL),
        )


def _is_static(value: onnx.ValueInfoProto) -> bool:
    """Whether a graph input or output is a tensor of known shape and type, or has no type."""
    kind = value.type.WhichOneof("value")
    if kind is None:
        return True
    tensor = value.type.tensor_type
    return (
        kind == "tensor_type"
        and tensor.elem_type in DTYPES
        and tensor.HasField("shape")
        and all(dim.HasField("dim_value") for dim in tensor.shape.dim)
    )


def _array(value: Any) -> Array:
    return (
        numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
    )


def _stored(directory: Path) -> tuple[list[Array], list[Array]]:
    """Inputs and outputs of the first data set that lies beside a model."""

    def read(kind: str) -> list[Array]:
        paths = directory.glob(f"test_data_set_0/{kind}_*.pb")
        ordered = sorted(paths, key=lambda path: int(path.stem.rsplit("_", 1)[1]))
        return [
            numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))
            for path in ordered
        ]

    return read("input"), read("output")
