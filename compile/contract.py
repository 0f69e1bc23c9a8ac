"""Which interface a model has: that of a driving network, or any other one (`generic`).

A driving network takes `new_img` (two warped frames) and small inputs, keeps its history in
state tensors, each input X paired with an output next_X, and gives one flat `outputs` vector
whose heads are listed in its metadata. Networks of past generations have been wrapped into this
interface before (`compile.generations`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from compile.metadata import METADATA_KEY, read_output_slices
from compile.values import dtype_of, numpy_dtype
from modeld.errors import ModeldError
from modeld.manifest import Camera, Contract, FrozenInput, Slice, StatePair, Tensor

IMAGE_INPUT = "new_img"
IMAGE_SHAPE = (2, 6, 128, 256)
OUTPUT = "outputs"
STATE_PREFIX = "next_"

DEFAULT_CAMERAS = (Camera(1928, 1208), Camera(1344, 760))

# Inputs that the daemon knows how to fill, with the shapes it can fill.
HOST_INPUTS: dict[str, tuple[str, tuple[tuple[int, ...], ...]]] = {
    "desire": ("one-hot: the manoeuvre the driver asks for, on its rising edge", ((1, 8), (8,))),
    "traffic_convention": ("one-hot: right-hand, left-hand traffic", ((1, 2),)),
    "action_t": ("seconds ahead at which lateral and longitudinal action are wanted", ((1, 2),)),
    "lateral_control_params": ("speed m/s, lateral delay s", ((1, 2),)),
}

_MEANINGS = {name: meaning for name, (meaning, _) in HOST_INPUTS.items()} | {
    IMAGE_INPUT: "warped frames, narrow then wide; channels: four luma phases, U, V",
    OUTPUT: "flat vector of all heads, see output_slices",
}


@dataclass(frozen=True)
class ModelInterface:
    """Inputs (not frozen) and outputs of a model with static shapes."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    metadata: Mapping[str, str]


def recognise(
    interface: ModelInterface,
    frozen: Sequence[FrozenInput],
    cameras: Sequence[Camera],
    generation: str = IMAGE_INPUT,
) -> Contract:
    """The contract of a model; `generation` if it is a driving network.

    Raises ModeldError when a driving model's parts do not fit.
    """
    pairs = _state_pairs(interface)
    inputs = {tensor.name: tensor for tensor in interface.inputs}
    if IMAGE_INPUT not in inputs:
        if cameras:
            raise ModeldError(
                f"--camera {cameras[0].name}: the model has no input {IMAGE_INPUT}, so there is "
                "nothing to warp frames for; leave --camera out"
            )
        return _contract("generic", "generic", interface, pairs, frozen, (), ())
    slices = _check_driving(interface, pairs)
    return _contract(
        "driving", generation, interface, pairs, frozen, slices, tuple(cameras) or DEFAULT_CAMERAS
    )


def _contract(
    kind: str,
    generation: str,
    interface: ModelInterface,
    pairs: tuple[StatePair, ...],
    frozen: Sequence[FrozenInput],
    slices: tuple[Slice, ...],
    cameras: tuple[Camera, ...],
) -> Contract:
    meanings = dict(_MEANINGS) if kind == "driving" else {}
    for pair in pairs:
        meanings |= {pair.input: "recurrent state", pair.output: f"next {pair.input}"}
    inputs, outputs = (
        tuple(Tensor(t.name, t.shape, t.dtype, meanings.get(t.name, "")) for t in tensors)
        for tensors in (interface.inputs, interface.outputs)
    )
    return Contract(kind, generation, inputs, outputs, pairs, tuple(frozen), slices, cameras)


def _state_pairs(interface: ModelInterface) -> tuple[StatePair, ...]:
    """Input X and output next_X of equal shape and type are state."""
    outputs = {tensor.name: tensor for tensor in interface.outputs}
    pairs = []
    for tensor in interface.inputs:
        successor = outputs.get(STATE_PREFIX + tensor.name)
        if successor is None:
            continue
        if (successor.shape, successor.dtype) != (tensor.shape, tensor.dtype):
            raise ModeldError(
                f"state {tensor.name} is {tensor.dtype}{list(tensor.shape)} but {successor.name} "
                f"is {successor.dtype}{list(successor.shape)}; a pair must agree"
            )
        pairs.append(StatePair(tensor.name, successor.name))
    return tuple(pairs)


def _check_driving(interface: ModelInterface, pairs: Iterable[StatePair]) -> tuple[Slice, ...]:
    states = {pair.input for pair in pairs}
    for tensor in interface.inputs:
        if tensor.name in states:
            continue
        allowed: tuple[tuple[int, ...], ...]
        if tensor.name == IMAGE_INPUT:
            allowed, dtype = (IMAGE_SHAPE,), "uint8"
        elif tensor.name in HOST_INPUTS:
            allowed, dtype = HOST_INPUTS[tensor.name][1], "float32"
        else:
            raise ModeldError(
                f"driving model: input {tensor.name} {list(tensor.shape)} is neither known "
                f"({', '.join(HOST_INPUTS)}) nor state (no output {STATE_PREFIX}{tensor.name})"
            )
        if tensor.shape not in allowed or tensor.dtype != dtype:
            raise ModeldError(
                f"driving model: input {tensor.name} is {tensor.dtype}{list(tensor.shape)}, "
                f"expected {dtype}{list(allowed[0])}"
            )
    output = next((t for t in interface.outputs if t.name == OUTPUT), None)
    if (
        output is None
        or output.dtype != "float32"
        or len(output.shape) != 2
        or output.shape[0] != 1
    ):
        found = f"{output.dtype}{list(output.shape)}" if output else "missing"
        raise ModeldError(f"driving model: output {OUTPUT} is {found}, expected float32[1, N]")
    if METADATA_KEY not in interface.metadata:
        raise ModeldError(f"driving model: no metadata {METADATA_KEY}, so its heads are unknown")
    return read_output_slices(interface.metadata[METADATA_KEY], output.shape[1])


def read_interface(
    model: onnx.ModelProto, outputs: Mapping[str, tuple[tuple[int, ...], str]], frozen: set[str]
) -> ModelInterface:
    """Inputs as the graph declares them; outputs with the (shape, dtype) that they came out in."""
    constants = {tensor.name for tensor in model.graph.initializer} | frozen
    inputs = tuple(
        declared_tensor(value) for value in model.graph.input if value.name not in constants
    )
    found = tuple(Tensor(name, shape, dtype) for name, (shape, dtype) in outputs.items())
    return ModelInterface(inputs, found, {p.key: p.value for p in model.metadata_props})


def declared_tensor(value: onnx.ValueInfoProto) -> Tensor:
    """A graph input as a tensor of the contract. Raises ModeldError for sequences and the like."""
    if not value.type.HasField("tensor_type"):
        kind = value.type.WhichOneof("value")
        raise ModeldError(f"input {value.name} is a {kind}; only tensors can be inputs")
    tensor_type = value.type.tensor_type
    dtype: np.dtype[Any] = numpy_dtype(dtype_of(tensor_type.elem_type))
    return Tensor(value.name, tuple(d.dim_value for d in tensor_type.shape.dim), dtype.name)
