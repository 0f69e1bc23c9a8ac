"""What a build is asked for."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

from compile.contract import declared_tensor
from modeld.errors import ModeldError
from modeld.manifest import Camera, FrozenInput, Tensor

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class BuildRequest:
    """What to build and how; see `modeld-compile build --help` for the meaning of each part."""

    model: Path
    out: Path
    # Where `model` is the vision part of a driving network: its policies.
    policies: tuple[Path, ...] = ()
    cameras: tuple[Camera, ...] = ()
    device: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    name: str | None = None
    constants: Mapping[str, Array] = field(default_factory=dict)
    reference_inputs: Mapping[str, Array] = field(default_factory=dict)
    # "float16": weights and what lies between kernels are rounded, sums are not.
    dtype: str = "float32"
    # Where to write the ranges of all tensors when `dtype` is float16.
    range_report: Path | None = None
    # Weights and activations as image2d.
    image: bool = False
    # True: a model that no second implementation runs is built all the same, and marked so.
    unverified: bool = False
    # False: tinygrad's kernels alone.
    tuned: bool = True
    # A tuning file to read; with a budget it is brought up to date and written.
    tuning: Path | None = None
    tune_budget_s: float | None = None

    def inputs(self, model: onnx.ModelProto) -> list[Tensor]:
        """The graph inputs that are given at run time.

        Raises ModeldError for constants and reference inputs that are not of the model.
        """
        weights = {tensor.name for tensor in model.graph.initializer}
        declared = [declared_tensor(v) for v in model.graph.input if v.name not in weights]
        _check_given("--const", self.constants, declared)
        _check_given("--reference-inputs", self.reference_inputs, declared)
        return [tensor for tensor in declared if tensor.name not in self.constants]

    def frozen(self) -> list[FrozenInput]:
        """The inputs whose values are fixed, as the manifest names them."""
        return [
            FrozenInput(
                name, array.shape, array.dtype.name, hashlib.sha256(array.tobytes()).hexdigest()
            )
            for name, array in sorted(self.constants.items())
        ]


def _check_given(option: str, given: Mapping[str, Array], declared: Sequence[Tensor]) -> None:
    names = {tensor.name for tensor in declared}
    if unknown := sorted(given.keys() - names):
        raise ModeldError(
            f"{option}: the model has no input {unknown[0]}; it has {', '.join(sorted(names))}"
        )
    for tensor in declared:
        array = given.get(tensor.name)
        if array is not None and (array.shape, array.dtype.name) != (tensor.shape, tensor.dtype):
            raise ModeldError(
                f"{option} {tensor.name} is {array.dtype}{list(array.shape)}, "
                f"the model wants {tensor.dtype}{list(tensor.shape)}"
            )
