"""`python -m benchmarks.runtimes ARTIFACT…`: the same kernels on every OpenCL runtime installed.

Each artifact's known runs are repeated on every device, in a process of its own, and compared
with what the build device gave. Exit status 1 when a runtime fails or is outside the artifact's
tolerances. More runtimes are made visible with OCL_ICD_VENDORS, as the OpenCL loader reads it.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load

from modeld import open_artifact
from modeld.artifact import Artifact
from modeld.errors import ModeldError
from modeld.executor import Executor
from modeld.manifest import REFERENCE_FILE
from modeld.opencl import list_devices
from modeld.selftest import named, with_heads
from modeld.verdict import DEGRADING

TIMEOUT_S = 900


@dataclass(frozen=True)
class Row:
    """The worst difference of one output over all known runs."""

    output: str
    absolute: float
    of_range: float  # relative to the range of the output's values in that run
    within: bool  # of the artifact's own tolerance for it
    exact: bool  # bit for bit


def compare(artifact: Artifact, executor: Executor) -> Iterator[Row]:
    """Repeat the known runs; one row per output."""
    reference = artifact.manifest.reference
    stored = load(artifact.read(REFERENCE_FILE))
    found: dict[str, list[Row]] = {}
    for seed in reference.seeds:
        executor.reset()
        inputs = named(stored, f"{seed}/input/")
        for _ in range(reference.turns):
            outputs = executor.run("run_model", inputs)
        contract = artifact.manifest.contract
        known = with_heads(contract, named(stored, f"{seed}/output/"))
        given = with_heads(contract, outputs)
        for tolerance in reference.tolerances:
            expected, values = known[tolerance.output], given[tolerance.output]
            wanted = expected.astype(np.float64)
            difference = np.abs(values.astype(np.float64) - wanted)
            allowed = float(tolerance.absolute) + float(tolerance.relative) * np.abs(wanted)
            worst = float(difference.max(initial=0.0))
            found.setdefault(tolerance.output, []).append(
                Row(
                    output=tolerance.output,
                    absolute=worst,
                    of_range=worst / max(float(np.ptp(wanted)) if wanted.size else 0.0, 1e-30),
                    within=bool(np.all(difference <= allowed)),
                    exact=values.tobytes() == expected.tobytes(),
                )
            )
    for name, rows in found.items():
        yield Row(
            output=name,
            absolute=max(row.absolute for row in rows),
            of_range=max(row.of_range for row in rows),
            within=all(row.within for row in rows),
            exact=all(row.exact for row in rows),
        )


def child(path: Path, number: int) -> int:
    """Print the rows of one artifact on one device as JSON."""
    artifact = open_artifact(path)
    executor = Executor(artifact, list_devices()[number], allow=DEGRADING)
    print(json.dumps([asdict(row) for row in compare(artifact, executor)]))
    return 0


def measured(path: Path, number: int) -> list[Row] | str:
    """The rows, from a process of its own since drivers crash; or what went wrong."""
    command = [sys.executable, "-m", "benchmarks.runtimes", "--child", str(number), str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not finished after {TIMEOUT_S} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return f"exit status {done.returncode}: {lines[-1] if lines else 'no message'}"
    return [Row(**row) for row in json.loads(done.stdout.splitlines()[-1])]


def main() -> int:
    """Print a Markdown table with a line per runtime, artifact and output."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.runtimes", description=__doc__)
    parser.add_argument("artifacts", type=Path, nargs="+", metavar="ARTIFACT")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        return child(args.artifacts[0], args.child)
    agreed = True
    print("| runtime | driver | artifact | output | worst difference | of range | verdict |")
    print("|---|---|---|---|---|---|---|")
    for number, device in enumerate(list_devices()):
        runtime = f"{device.platform.name.strip()} | {device.driver_version.strip()}"
        for path in args.artifacts:
            artifact = open_artifact(path)
            which = f"{artifact.manifest.name} {artifact.digest[7:15]}"
            rows = measured(path, number)
            if isinstance(rows, str):
                agreed = False
                print(f"| {runtime} | {which} | | | | {rows} |", flush=True)
                continue
            for row in rows:
                agreed &= row.within
                verdict = (
                    "equal bit for bit" if row.exact else "within" if row.within else "OUTSIDE"
                )
                print(
                    f"| {runtime} | {which} | {row.output} | {row.absolute:.2g} "
                    f"| {row.of_range:.1e} | {verdict} |",
                    flush=True,
                )
    return 0 if agreed else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ModeldError as error:
        sys.exit(f"benchmarks.runtimes: error: {error}")
