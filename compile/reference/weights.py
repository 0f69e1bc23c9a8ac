"""Weights of the reference network: a flat dict of named float32 arrays, apart from the graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from compile.reference.heads import COEFFICIENTS
from compile.reference.topology import (
    ACTION_T,
    DESIRE,
    FEATURE,
    STEPS,
    TRAFFIC,
    Convolution,
    Topology,
    neck_elements,
    stem_layers,
    trunk_layers,
)
from modeld.errors import ModeldError

Array = npt.NDArray[np.float32]
Weights = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A weight: its shape and the standard deviation it starts with (0 for biases)."""

    name: str
    shape: tuple[int, ...]
    deviation: float


def parameters(topology: Topology) -> tuple[Parameter, ...]:
    """All weights in the order of the layers. Dense weights are (inputs, outputs)."""
    found: list[Parameter] = []
    for layer in stem_layers(topology) + trunk_layers(topology):
        found += _convolution(layer)
    attention = topology.attention
    joined = FEATURE + attention + TRAFFIC + ACTION_T
    query = (attention // topology.heads) ** -0.5  # scaled dot product: folded into the query
    found += _dense("feature", neck_elements(topology), FEATURE)
    found += _dense("attention.query", FEATURE, attention, gain=query)
    found += _dense("attention.memory", FEATURE + DESIRE, 2 * attention)[:1]
    found.append(Parameter("attention.position", (STEPS, 2 * attention), 0.02))
    found += _dense("trunk.join", joined, topology.trunk, gain=2**0.5)
    found += _dense("trunk.mix", topology.trunk, topology.trunk, gain=2**0.5)
    found += _dense("trunk.coefficients", topology.trunk, COEFFICIENTS, gain=0.1)
    return tuple(found)


def _convolution(layer: Convolution) -> list[Parameter]:
    reads = 1 if layer.depthwise else layer.channels_in
    fan_in = reads * layer.kernel**2
    # He's rule before a rectifier, LeCun's otherwise.
    deviation = layer.gain * ((2.0 if layer.relu else 1.0) / fan_in) ** 0.5
    shape = (layer.channels_out, reads, layer.kernel, layer.kernel)
    return [
        Parameter(f"{layer.name}.weight", shape, deviation),
        Parameter(f"{layer.name}.bias", (layer.channels_out,), 0.0),
    ]


def _dense(name: str, inputs: int, outputs: int, gain: float = 1.0) -> list[Parameter]:
    return [
        Parameter(f"{name}.weight", (inputs, outputs), gain * inputs**-0.5),
        Parameter(f"{name}.bias", (outputs,), 0.0),
    ]


def seeded(topology: Topology, seed: int) -> dict[str, Array]:
    """Untrained weights: normal, scaled by layer; biases zero. The same seed gives the same."""
    random = np.random.default_rng(seed)
    return {
        parameter.name: random.normal(0.0, parameter.deviation, parameter.shape).astype(np.float32)
        for parameter in parameters(topology)
    }


def check(weights: Weights, topology: Topology) -> None:
    """Raise ModeldError unless `weights` are exactly this topology's, and finite."""
    wanted = {parameter.name: parameter.shape for parameter in parameters(topology)}
    if missing := sorted(wanted.keys() - weights.keys()):
        raise ModeldError(f"weights lack {missing[0]!r}, which {topology.name} has; train it again")
    if extra := sorted(weights.keys() - wanted.keys()):
        raise ModeldError(f"weights have {extra[0]!r}, which {topology.name} has not; wrong size?")
    for name, shape in wanted.items():
        array = weights[name]
        if array.shape != shape or array.dtype != np.float32:
            raise ModeldError(
                f"weight {name!r} is {array.dtype} {array.shape}, {topology.name} needs "
                f"float32 {shape}; give the weights of that size"
            )
        if not np.isfinite(array).all():
            raise ModeldError(f"weight {name!r} holds a value that is not finite; train it again")


def load(path: Path) -> dict[str, Array]:
    """Read a safetensors file. Raises ModeldError when it cannot be read."""
    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise ModeldError(f"cannot read weights {path}: {error}; give a safetensors file") from None
