"""`python -m benchmarks.oclgrind ARTIFACT…`: every launch under the simulator Oclgrind.

Runs the first known run of each artifact under `oclgrind --data-races` and counts what it says:
reads and writes outside a buffer, races between work-items. Exit status 1 for any finding. Its
search for values never set is left out: it does not follow fills and local memory. The simulator
takes some 1000 times as long as a device.
"""

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from safetensors.numpy import load

from modeld import open_artifact
from modeld.errors import ModeldError
from modeld.executor import Executor
from modeld.manifest import REFERENCE_FILE
from modeld.opencl import list_devices
from modeld.selftest import named
from modeld.verdict import DEGRADING

# How the simulator begins each finding.
FINDING = re.compile(
    r"^(Invalid (?:read|write)[^\n]*|(?:Read-write|Write-write) data race[^\n]*|"
    r"Invalid [^\n]*|Work-group divergence[^\n]*)",
    re.MULTILINE,
)
DONE = "every launch was simulated"
# The simulator does not know what clang makes of `restrict` in functions that it inlines.
BUILD_OPTIONS = "-Drestrict="


def child(path: Path, turns: int) -> int:
    """The first known run, on the only device there is under the simulator."""
    artifact = open_artifact(path)
    (device,) = list_devices()
    executor = Executor(artifact, device, allow=DEGRADING)
    seed = artifact.manifest.reference.seeds[0]
    inputs = named(load(artifact.read(REFERENCE_FILE)), f"{seed}/input/")
    for _ in range(turns):
        executor.run("run_model", inputs)
    print(DONE)
    return 0


def simulate(path: Path, turns: int, timeout_s: float) -> tuple[Counter[str], str]:
    """Findings by their first line without addresses, and an error or nothing."""
    command = ["oclgrind", "--data-races", "--max-errors", "1000"]
    command += ["--build-options", BUILD_OPTIONS]
    command += [sys.executable, "-m", "benchmarks.oclgrind", "--child", str(turns), str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Counter(), f"not finished after {timeout_s:.0f} s"
    found = Counter(re.sub(r"0x[0-9a-f]+", "0x…", line) for line in FINDING.findall(done.stderr))
    if DONE not in done.stdout:
        lines = done.stderr.strip().splitlines()
        return found, f"exit status {done.returncode}: {lines[-1] if lines else 'no message'}"
    return found, ""


def main() -> int:
    """One line per artifact, and the findings."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.oclgrind", description=__doc__)
    parser.add_argument("artifacts", type=Path, nargs="+", metavar="ARTIFACT")
    parser.add_argument("--turns", type=int, default=2, help="runs, so that state swaps once")
    parser.add_argument("--timeout", type=float, default=3600, metavar="SECONDS")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        return child(args.artifacts[0], args.child)
    if shutil.which("oclgrind") is None:
        raise ModeldError("oclgrind is not installed; apt install oclgrind")
    clean = True
    for path in args.artifacts:
        manifest = open_artifact(path).manifest
        start = time.monotonic()
        found, error = simulate(path, args.turns, args.timeout)
        launches = args.turns * manifest.budget.kernels
        verdict = error or (f"{found.total()} findings" if found else "clean")
        print(f"{manifest.name}: {launches} launches, {time.monotonic() - start:.0f} s: {verdict}")
        for line, count in found.most_common():
            print(f"  {count} × {line}")
        clean &= not found and not error
    return 0 if clean else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ModeldError as error:
        sys.exit(f"benchmarks.oclgrind: error: {error}")
