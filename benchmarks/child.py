"""One peer alone in a process: how long it takes to start and what memory it needs.

`python -m benchmarks.child PEER MODEL ARTIFACT CACHE` prints one line of JSON.
"""

import json
import sys
import time
from pathlib import Path

from benchmarks.peers import Run, onnxruntime, openvino, random_inputs

RUNS = 20


def load(peer: str, model: Path, artifact: Path, cache: Path) -> Run:
    """The peer, ready to run."""
    if peer == "onnxruntime":
        return onnxruntime(model)
    if peer == "openvino":
        return openvino(model)
    from modeld.artifact import open_artifact
    from modeld.executor import Executor
    from modeld.program_cache import ProgramCache

    executor = Executor(open_artifact(artifact), cache=ProgramCache(cache))
    states = {pair.input for pair in executor.contract.state}

    def run(inputs: dict) -> dict:  # type: ignore[type-arg]
        return executor.run("run_model", {n: a for n, a in inputs.items() if n not in states})

    def run_and_keep(inputs: dict) -> dict:  # type: ignore[type-arg]
        outputs = run(inputs)
        executor.keep_programs()
        return outputs

    return run_and_keep  # type: ignore[return-value]


def main() -> None:
    """Measure the peer that the command line names."""
    peer, model, artifact, cache = sys.argv[1], *(Path(a) for a in sys.argv[2:5])
    inputs = random_inputs(model)
    start = time.perf_counter()
    run = load(peer, model, artifact, cache)
    run(inputs)
    ready = time.perf_counter() - start
    for _ in range(RUNS):
        run(inputs)
    print(json.dumps({"start_s": ready, "peak_kib": peak_kib()}))


def peak_kib() -> int:
    """The largest resident set so far. (The rusage value would count the parent's, too.)"""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


if __name__ == "__main__":
    main()
