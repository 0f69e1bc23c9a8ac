"""`python -m benchmarks.oclgrind ARTIFACT…`: every launch under the simulator Oclgrind.

Runs the first known run of each artifact under `oclgrind --data-races` and counts what it says:
reads and writes outside a buffer, races between work-items. Exit status 1 for any finding. Its
search for values never set is left out: it does not follow fills and local memory. The simulator
takes some 1000 times as long as a device; `--edges N` runs each program once, and of it the first
and the last N work-groups along every dimension, where the borders are.
"""

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import modeld.environment  # noqa: F401 - read by pyopencl when it loads, so before it

# isort: split
import pyopencl as cl
from safetensors.numpy import load

from modeld import open_artifact
from modeld.device_memory import DeviceMemory
from modeld.errors import ModeldError
from modeld.executor import Executor
from modeld.manifest import REFERENCE_FILE, Call, Manifest
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


# Work-groups that are launched stand for the first and the last ones of the whole launch.
EDGES = """\
static size_t whole_groups(uint d) {{ return d == 0 ? {0} : d == 1 ? {1} : {2}; }}
static size_t placed(uint d, size_t group, size_t launched) {{
  return group < launched - launched / 2 ? group : whole_groups(d) - launched + group;
}}
#define get_group_id(d) placed(d, get_group_id(d), get_num_groups(d))
#define get_global_id(d) (get_group_id(d) * get_local_size(d) + get_local_id(d))
#define get_global_size(d) (whole_groups(d) * get_local_size(d))
"""


def edges_child(path: Path, edges: int) -> int:
    """Each program of `run_model` once; its values are those that the programs before left."""
    artifact = open_artifact(path)
    (device,) = list_devices()
    queue = cl.CommandQueue(cl.Context([device]))
    memory = DeviceMemory(queue, artifact)
    contract = artifact.manifest.contract
    states = {pair.input for pair in contract.state}
    inputs = named(
        load(artifact.read(REFERENCE_FILE)), f"{artifact.manifest.reference.seeds[0]}/input/"
    )
    memory.stage([t for t in contract.inputs if t.name not in states], inputs)
    memory.upload()
    calls = distinct_calls(artifact.manifest)
    for call in calls:
        local = call.local_size or (1,) * len(call.global_size)
        groups = [whole // size for whole, size in zip(call.global_size, local, strict=True)]
        launched = [min(count, 2 * edges) for count in groups]
        head = EDGES.format(*groups, *(1,) * (3 - len(groups)))
        program = cl.Program(queue.context, head + artifact.read(call.program).decode()).build()
        kernel = cl.Kernel(program, call.kernel)
        for index, argument in enumerate(call.arguments):
            kernel.set_arg(index, memory.view(argument))
        sizes = tuple(count * size for count, size in zip(launched, local, strict=True))
        cl.enqueue_nd_range_kernel(queue, kernel, sizes, local)
        queue.finish()
    print(DONE)
    return 0


def distinct_calls(manifest: Manifest) -> list[Call]:
    """The launches of `run_model` that differ in program or sizes, the first of each."""
    (entry,) = (entry for entry in manifest.entry_points if entry.name == "run_model")
    found = {(c.program, c.kernel, c.global_size, c.local_size): c for c in reversed(entry.calls)}
    return list(reversed(found.values()))


def simulate(path: Path, edges: int, turns: int, timeout_s: float) -> tuple[Counter[str], str]:
    """Findings by their first line without addresses, and an error or nothing."""
    command = ["oclgrind", "--data-races", "--max-errors", "1000"]
    command += ["--build-options", BUILD_OPTIONS]
    command += [sys.executable, "-m", "benchmarks.oclgrind", "--child", str(path)]
    command += ["--edges", str(edges), "--turns", str(turns)]
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
    parser.add_argument(
        "--edges", type=int, default=0, metavar="N", help="work-groups at each end (default: all)"
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child and args.edges:
        return edges_child(args.artifacts[0], args.edges)
    if args.child:
        return child(args.artifacts[0], args.turns)
    if shutil.which("oclgrind") is None:
        raise ModeldError("oclgrind is not installed; apt install oclgrind")
    clean = True
    for path in args.artifacts:
        manifest = open_artifact(path).manifest
        start = time.monotonic()
        found, error = simulate(path, args.edges, args.turns, args.timeout)
        launches = (
            len(distinct_calls(manifest)) if args.edges else (args.turns * manifest.budget.kernels)
        )
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
