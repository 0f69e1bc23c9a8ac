"""`python -m benchmarks.start ARTIFACT`: from process start to first output, cold and warm.

Cold: no program was ever compiled, neither our cache nor the driver's own has an entry. Warm: the
start after that. Moved: our cache is kept, the driver's is empty, as after a reboot that clears
/var/cache of all but the service. Every start is a process of its own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from modeld.errors import ModeldError

# Milliseconds since the process was started, after each step.
STEPS = ("python", "imports", "open", "executor", "first output", "self-test")
# Where drivers keep compiled kernels of their own.
DRIVER_CACHES = ("POCL_CACHE_DIR", "MESA_SHADER_CACHE_DIR", "CUDA_CACHE_PATH")
BUDGET_S = {"cold": 10.0, "warm": 1.0}


def child(artifact: Path, cache: Path, started_ns: int) -> None:
    """Load, run once on zeros, and print the moments of STEPS as JSON."""
    moments = [time.monotonic_ns()]

    import numpy as np

    from modeld import open_artifact
    from modeld.executor import Executor
    from modeld.program_cache import ProgramCache
    from modeld.selftest import check

    moments.append(time.monotonic_ns())
    opened = open_artifact(artifact)
    moments.append(time.monotonic_ns())
    executor = Executor(opened, cache=ProgramCache(cache))
    moments.append(time.monotonic_ns())
    states = {pair.input for pair in executor.contract.state}
    inputs = [t for t in executor.contract.inputs if t.name not in states]
    executor.run("run_model", {t.name: np.zeros(t.shape, t.dtype) for t in inputs})
    moments.append(time.monotonic_ns())
    check(executor, opened)
    moments.append(time.monotonic_ns())
    executor.keep_programs()
    print(json.dumps([(moment - started_ns) / 1e6 for moment in moments]))


def start(artifact: Path, cache: Path, driver_cache: Path) -> list[float]:
    """One start in a process of its own; milliseconds from its start to the end of each step."""
    driver_cache.mkdir(exist_ok=True)
    environment = os.environ | dict.fromkeys(DRIVER_CACHES, str(driver_cache))
    command = [sys.executable, "-m", "benchmarks.start", "--child", str(time.monotonic_ns())]
    done = subprocess.run(
        [*command, "--cache", str(cache), str(artifact)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(moment) for moment in json.loads(done.stdout)]


def measure(artifact: Path, repeats: int) -> dict[str, list[list[float]]]:
    """Starts by kind, each `repeats` times."""
    starts: dict[str, list[list[float]]] = {"cold": [], "warm": [], "moved": []}
    with tempfile.TemporaryDirectory(prefix="start-") as folder:
        for number in range(repeats):
            cache, driver = Path(folder, f"cache{number}"), Path(folder, f"driver{number}")
            starts["cold"].append(start(artifact, cache, driver))
            starts["warm"].append(start(artifact, cache, driver))
            starts["moved"].append(start(artifact, cache, Path(folder, f"empty{number}")))
    return starts


def main() -> int:
    """Print the medians; exit 1 when a start is over its budget."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("artifact", type=Path, metavar="DIR")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        child(args.artifact, args.cache, args.child)
        return 0

    from modeld import open_artifact

    open_artifact(args.artifact)  # what is wrong with it is told here, not by a process per start
    within = True
    print(f"{'ms':8}" + "".join(f"{step:>14}" for step in STEPS))
    for kind, starts in measure(args.artifact, args.repeats).items():
        medians = [statistics.median(column) for column in zip(*starts, strict=True)]
        print(f"{kind:8}" + "".join(f"{moment:14.0f}" for moment in medians))
        within &= medians[4] / 1e3 <= BUDGET_S.get(kind, float("inf"))
    return 0 if within else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ModeldError as error:
        sys.exit(f"benchmarks.start: error: {error}")
