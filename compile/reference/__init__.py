"""The reference driving network: our own ONNX with today's driving-model contract."""

import onnx

from compile.reference.graph import assemble
from compile.reference.shipped import shipped, shipped_sizes
from compile.reference.topology import TOPOLOGIES
from compile.reference.weights import Weights, check, seeded
from modeld.errors import ModeldError


def build_reference(
    size: str = "small", weights: Weights | None = None, seed: int | None = None
) -> onnx.ModelProto:
    """The network in size "small" or "large".

    With `weights`, with random ones from `seed`, or else with the trained ones that are shipped;
    a size that has none gets those of seed 0. Raises ModeldError for an unknown size and for
    weights that do not belong to it.
    """
    topology = TOPOLOGIES.get(size)
    if topology is None:
        known = ", ".join(sorted(TOPOLOGIES))
        raise ModeldError(f"no reference network of size {size!r}; choose one of {known}")
    if seed is not None and seed < 0:
        raise ModeldError(f"seed {seed} is negative; use one from 0")
    label = f"given/{size}"
    if weights is None and seed is None and size in shipped_sizes():
        weights, record = shipped(size)
        label = f"trained/{size}/{record['sha256'][:12]}"
    elif weights is None:
        weights = seeded(topology, seed or 0)
        label = f"untrained/{size}/seed-{seed or 0}"
    check(weights, topology)
    return assemble(topology, weights, label)
