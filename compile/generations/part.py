"""One ONNX file of a driving network: its inputs, its output vector and the heads in it."""

from collections.abc import Mapping
from dataclasses import dataclass

import onnx
import onnx.inliner

from compile.contract import OUTPUT, declared_tensor
from compile.generations.rules import DESIRES, FEATURES, IMAGES
from compile.metadata import METADATA_KEY, read_output_slices
from modeld.errors import ModeldError
from modeld.manifest import Tensor

FLOATS = ("float32", "float16")


@dataclass(frozen=True)
class Part:
    """A file `name` with static shapes; `model` has no functions. `output` is float (1, N)."""

    name: str
    model: onnx.ModelProto
    inputs: Mapping[str, Tensor]
    output: Tensor
    heads: Mapping[str, tuple[int, int]]

    @property
    def size(self) -> int:
        """Elements of the output vector."""
        return self.output.shape[1]


def graph_inputs(model: onnx.ModelProto) -> set[str]:
    """Names of the inputs that are no constants."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return {value.name for value in model.graph.input} - constants


def image_names(names: set[str]) -> tuple[str, str] | None:
    """The inputs for narrow and wide frames among `names`, where there are both."""
    return next((pair for pair in IMAGES if names.issuperset(pair)), None)


def is_part(model: onnx.ModelProto) -> bool:
    """True for a file of a past driving network: it takes pairs of frames, or past features."""
    names = graph_inputs(model)
    is_policy = FEATURES in names and not names.isdisjoint(DESIRES)
    return image_names(names) is not None or is_policy


def read_part(name: str, model: onnx.ModelProto) -> Part:
    """The file as a part. Raises ModeldError when its output or the list of heads is missing."""
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    names = graph_inputs(model)
    inputs = {
        value.name: declared_tensor(value) for value in model.graph.input if value.name in names
    }
    output = _output(name, model)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    if METADATA_KEY not in metadata:
        raise ModeldError(f"{name}: no metadata {METADATA_KEY}, so its heads are unknown")
    slices = read_output_slices(metadata[METADATA_KEY], output.shape[1])
    heads = {head.name: (head.start, head.stop) for head in slices}
    return Part(name, model, inputs, output, heads)


def _output(name: str, model: onnx.ModelProto) -> Tensor:
    declared = {value.name: value for value in model.graph.output}
    value = declared.get(OUTPUT) or (model.graph.output[0] if len(declared) == 1 else None)
    if value is None:
        raise ModeldError(f"{name}: outputs are {', '.join(declared)}, expected one, {OUTPUT}")
    output = declared_tensor(value)
    if output.dtype not in FLOATS or len(output.shape) != 2 or output.shape[0] != 1:
        raise ModeldError(
            f"{name}: output {output.name} is {output.dtype}{list(output.shape)}, "
            "expected float32 or float16 of [1, N]"
        )
    if output.shape[1] < 1:
        raise ModeldError(f"{name}: output {output.name} has no length; export static shapes")
    return output
