"""Does the artifact compute here what it computed where it was built?

The known runs come with the artifact. They run on this device before the daemon says that it is
ready, since drivers have been seen to give zeros, NaN or another network's numbers.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import safetensors
from safetensors.numpy import load

from modeld.artifact import Artifact
from modeld.errors import ModeldError
from modeld.executor import Executor
from modeld.manifest import OUTPUT_VECTOR, REFERENCE_FILE, Contract, head_name

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class SelfTest:
    """Result of a passed self-test: exact where all outputs equal the build's bit for bit."""

    exact: bool
    worst: dict[str, float]  # output -> largest absolute difference over all seeds


def check(executor: Executor, artifact: Artifact) -> SelfTest:
    """Run the artifact's known inputs and compare; leaves the state at zero.

    Raises ModeldError naming the output, the difference and the allowance.
    """
    reference = artifact.manifest.reference
    try:
        stored = load(artifact.read(REFERENCE_FILE))
    except safetensors.SafetensorError as error:
        raise ModeldError(
            f"{REFERENCE_FILE} is damaged ({error}); build the artifact again"
        ) from None
    digest = hashlib.sha256()
    worst: dict[str, float] = {}
    for seed in reference.seeds:
        executor.reset()
        inputs = named(stored, f"{seed}/input/")
        expected = named(stored, f"{seed}/output/")
        for _ in range(reference.turns):
            outputs = executor.run("run_model", inputs)
        for name in sorted(outputs):
            digest.update(np.ascontiguousarray(outputs[name]).tobytes())
        known = with_heads(artifact.manifest.contract, expected)
        for name, found in with_heads(artifact.manifest.contract, outputs).items():
            difference = _compare(artifact, seed, name, found, known)
            worst[name] = max(worst.get(name, 0.0), difference)
    executor.reset()
    return SelfTest(exact=digest.hexdigest() == reference.digest, worst=worst)


def named(stored: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """The arrays below `prefix` (e.g. `0/input/`), by the rest of their names."""
    return {
        name.removeprefix(prefix): array
        for name, array in stored.items()
        if name.startswith(prefix)
    }


def with_heads(contract: Contract, outputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs, and every head of a driving network's vector by itself as `outputs.HEAD`.

    A probability and a distance in metres do not have the same allowance.
    """
    result = dict(outputs)
    for head in contract.output_slices:
        if (vector := outputs.get(OUTPUT_VECTOR)) is not None:
            result[head_name(head)] = vector.reshape(-1)[head.start : head.stop]
    return result


def _compare(
    artifact: Artifact, seed: int, name: str, found: Array, expected: Mapping[str, Array]
) -> float:
    """Largest absolute difference. Raises ModeldError when it is beyond the tolerance."""
    known = expected.get(name)
    if known is None or known.shape != found.shape or known.dtype != found.dtype:
        raise ModeldError(
            f"{REFERENCE_FILE} has no {seed}/output/{name} of {found.dtype}{list(found.shape)}; "
            "build the artifact again"
        )
    tolerances = artifact.manifest.reference.tolerances
    tolerance = next((t for t in tolerances if t.output == name), None)
    # Heads need not have an allowance of their own; the whole vector has one.
    if not found.size or tolerance is None:
        return 0.0
    with np.errstate(invalid="ignore"):  # infinity minus infinity; equal values are settled first
        distance = np.where(found == known, 0.0, np.abs(found.astype("f8") - known.astype("f8")))
    # NaN here and in the reference at one place is agreement too.
    distance = np.where(np.isnan(found.astype("f8")) & np.isnan(known.astype("f8")), 0.0, distance)
    # A relative part of what is not finite would be NaN, which allows nothing.
    size = np.nan_to_num(np.abs(known.astype("f8")), posinf=0.0)
    allowed = float(tolerance.absolute) + float(tolerance.relative) * size
    if not np.all(distance <= allowed):
        place = np.unravel_index(
            np.nanargmax(np.nan_to_num(distance - allowed, nan=np.inf)), found.shape
        )
        raise ModeldError(
            f"self-test failed: {name}{[int(i) for i in place]} is {found[place]!s}, "
            f"the build had {known[place]!s} (seed {seed}, allowed {tolerance.absolute} + "
            f"{tolerance.relative} relative); this device or driver computes something else"
        )
    return float(np.max(distance))
