"""A peer in a process of its own, which stands still while others have their turn.

Worker threads of some runtimes spin long after a call (onnxruntime's for more than 40 ms), so in
one process they would take a processor from whoever is measured next. The process, `python -m
benchmarks.contender PEER MODEL ARTIFACT OUTPUTS`, keeps its first outputs in OUTPUTS, says "ready",
and then answers every line with the nanoseconds that a call took.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from benchmarks import peers
from compile.device import use_device
from modeld.opencl import select_device


class Contender:
    """One peer with one model; call it for the seconds of one run. Raises RuntimeError."""

    def __init__(self, name: str, model: Path, artifact: Path, folder: Path) -> None:
        self._name = name
        self._outputs = folder / f"{name}.npz"
        command = [sys.executable, "-m", "benchmarks.contender", name]
        command += [str(model), str(artifact), str(self._outputs)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self._line() != "ready":
            self.process.communicate()
            raise RuntimeError(f"{name} cannot run {model.name}")
        self._stop()

    def __call__(self) -> float:
        """Run it once and stop it again; returns the seconds that the run took."""
        self.process.send_signal(signal.SIGCONT)
        if self.process.stdin is not None:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        answer = self._line()
        if not answer:
            raise RuntimeError(f"{self._name} ended with {self.process.wait()}")
        self._stop()
        return int(answer) / 1e9

    def outputs(self) -> peers.Arrays:
        """What it answered first, by name."""
        with np.load(self._outputs) as found:
            return dict(found)

    def _stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def _line(self) -> str:
        return self.process.stdout.readline().strip() if self.process.stdout else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.communicate()


def load(name: str, model: Path, artifact: Path) -> peers.Run:
    """The peer `name`, ready to run. Raises ImportError where it is not installed."""
    if name == "onnxruntime":
        return peers.onnxruntime(model)
    if name == "openvino":
        return peers.openvino(model)
    use_device(select_device())
    return peers.Ours(artifact) if name == "ours" else peers.tinygrad(model)


def main() -> int:
    """Serve the peer that the command line names until the input ends."""
    name, model, artifact, outputs = sys.argv[1], *(Path(a) for a in sys.argv[2:5])
    try:
        run = load(name, model, artifact)
    except ImportError as error:
        print(error, file=sys.stderr)
        return 1
    inputs = peers.random_inputs(model)
    np.savez(outputs, **run(inputs))  # type: ignore[arg-type]
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter_ns()
        run(inputs)
        print(time.perf_counter_ns() - start, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
