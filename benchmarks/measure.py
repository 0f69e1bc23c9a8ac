"""Measuring: peers call by call in turn, the machine's practical peak, processes of their own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from benchmarks.peers import Array, Arrays, Ours
from compile.kernels.conv import Convolution, candidates, render
from compile.kernels.layout import BLOCKED, MapShape
from compile.tune import DeviceTimer
from modeld.wake_latency import bounded_wake_latency

WARM_UP = 10
# Kernels with convolutions and products that are not depthwise, by the beginnings of their names.
# Not winograd's: by the nodes' multiply-accumulates they are beyond the peak.
DENSE = ("pointwise", "conv", "planar", "separable", "expand", "dense")
# Between two calls: nobody finds the caches as it left them, as between two frames.
PAUSE_S = 0.004


@dataclass(frozen=True)
class Timing:
    """Of one peer on one model, in milliseconds."""

    median: float
    p99: float
    minimum: float


def interleave(
    peers: Mapping[str, Callable[[], float]], runs: int, pause_s: float = PAUSE_S
) -> dict[str, Timing]:
    """Call all peers `runs` times in turn, after a warm-up; each returns the seconds it took.

    Processors are kept awake for all of them, not for ours alone, where that is permitted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    with bounded_wake_latency():
        for turn in range(WARM_UP + runs):
            for name, run in peers.items():
                time.sleep(pause_s)
                took = run()
                if turn >= WARM_UP:
                    seconds[name].append(took)
    return {
        name: Timing(*(float(v) * 1e3 for v in (np.median(s), np.percentile(s, 99), min(s))))
        for name, s in seconds.items()
    }


def difference(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> float:
    """The largest difference between outputs, relative to the range of the second's values."""
    worst = 0.0
    for name, values in ours.items():
        expected = theirs[name].astype(np.float64)
        scale = max(1e-6, float(np.ptp(expected)))
        worst = max(worst, float(np.max(np.abs(values - expected))) / scale)
    return worst


class Product:
    """A 512 x 512 x 2016 product by our best template: the machine's practical peak, now."""

    def __init__(self, device: cl.Device) -> None:
        shape = MapShape(1, 512, 32, 63)
        one, none = (1, 1), (0, 0)
        conv = Convolution(shape, 512, shape, one, one, one, none, 1, BLOCKED, BLOCKED)
        timer, kernels = DeviceTimer(device), [render(conv, t) for t in candidates(conv)[:4]]
        best = kernels[int(np.argmin(timer(conv, kernels)))]
        self._macs, self._run = conv.macs, timer.prepare(conv, [best])

    def __call__(self) -> float:
        """GFLOP/s of one product."""
        return 2 * self._macs / self._run(0) / 1e9


@dataclass(frozen=True)
class Shares:
    """What the launches of one model reach, medians over turns.

    `peak` is the product's GFLOP/s in the same turns. `by_time` is the share of it that all
    launches with multiply-accumulates reach together, `dense` that of the convolutions and
    products that are not depthwise, each weighted by its multiply-accumulates.
    """

    device_ms: float
    peak: float
    by_time: float
    dense: float
    # (kernel, nodes, multiply-accumulates, milliseconds), longest first.
    kernels: list[list[object]]


def shares(ours: Ours, inputs: Arrays, product: Callable[[], float], runs: int) -> Shares:
    """Run the model and the product in turn, `runs` times."""
    times, rates = [], []
    with bounded_wake_latency():
        for _ in range(runs):
            ours(inputs)
            times.append([entry.nanoseconds for entry in ours.executor.kernel_times()])
            rates.append(product())
    calls = [entry.call for entry in ours.executor.kernel_times()]
    medians = np.median(np.array(times), axis=0) / 1e6
    macs = np.array([call.macs for call in calls])
    reached = 2 * macs / medians / 1e6 / (peak := float(np.median(rates)))
    dense = np.array([call.kernel.startswith(DENSE) for call in calls])
    counted = macs > 0
    rows: list[list[object]] = [
        [call.kernel, " ".join(call.nodes), call.macs, round(float(ms), 4)]
        for call, ms in zip(calls, medians, strict=True)
    ]
    rows.sort(key=lambda row: -float(str(row[3])))
    return Shares(
        float(medians.sum()),
        peak,
        _mean(reached[counted], medians[counted]),
        _mean(reached[dense], macs[dense]),
        rows,
    )


def _mean(values: npt.NDArray[np.float64], weights: npt.NDArray[np.number]) -> float:
    return float(np.average(values, weights=weights)) if weights.sum() else 0.0


def alone(peer: str, model: Path, artifact: Path, cache: Path | None) -> dict[str, float]:
    """Start time and peak memory of a peer in a process of its own.

    Compiled programs are kept in `cache`; None: where the build has left them.
    """
    environment = {**os.environ, "PYOPENCL_NO_CACHE": "1"}
    if cache is not None:
        environment["POCL_CACHE_DIR"] = str(cache / "pocl")
        (cache / "pocl").mkdir(parents=True, exist_ok=True)
    kept = cache or artifact.parent / f"{artifact.name}.kept"
    command = [sys.executable, "-m", "benchmarks.child", peer, str(model), str(artifact), str(kept)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def build(model: Path, out: Path, options: list[str]) -> float:
    """Build an artifact in a process of its own; returns the seconds it took."""
    command = [sys.executable, "-m", "compile", "build", str(model), "--out", str(out), *options]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"building {model.name} failed: {done.stderr.splitlines()[-1]}")
    return time.perf_counter() - start
