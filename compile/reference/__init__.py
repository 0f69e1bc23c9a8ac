"""The reference driving network: our own ONNX with today's driving-model contract."""

import onnx

from compile.reference.graph import assemble
from compile.reference.topology import TOPOLOGIES
from compile.reference.weights import Weights, check, seeded
from modeld.errors import ModeldError


def build_reference(
    size: str = "small", weights: Weights | None = None, seed: int = 0
) -> onnx.ModelProto:
    """The network in size "small" or "large", with `weights` or seeded random ones.

    Raises ModeldError for an unknown size and for weights that do not belong to it.
    """
    topology = TOPOLOGIES.get(size)
    if topology is None:
        known = ", ".join(sorted(TOPOLOGIES))
        raise ModeldError(f"no reference network of size {size!r}; choose one of {known}")
    if weights is None:
        return assemble(topology, seeded(topology, seed), f"untrained/{size}/seed-{seed}")
    check(weights, topology)
    return assemble(topology, weights, f"given/{size}")
