"""`modeld bench DIR`: how long does one run take here, and which kernels take it?"""

import argparse
import time
from collections import defaultdict

import numpy as np
import numpy.typing as npt

from modeld.commands import options
from modeld.errors import ModeldError
from modeld.executor import Executor, KernelTime
from modeld.manifest import Call
from modeld.selftest import check
from modeld.signals import (
    Stop,
    StoppedError,
    finishing_on_signals,
    tell_stopped,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    options.add_artifact(parser)
    parser.add_argument("--runs", type=int, default=100, help="timed runs (default 100)")
    parser.add_argument("--warmup", type=int, default=10, help="runs before them (default 10)")
    parser.add_argument("--profile", action="store_true", help="device time of every kernel")


def run(args: argparse.Namespace) -> int:
    """Time `run_model` on the artifact's reference inputs; percentiles in milliseconds."""
    if args.runs < 1 or args.warmup < 0:
        raise ModeldError(
            f"--runs {args.runs} and --warmup {args.warmup} leave nothing to time; "
            "give 1 or more runs after 0 or more warm-ups"
        )
    artifact = options.open_trusted(args)
    executor = options.load_executor(args, artifact, profile=args.profile)
    check(executor, artifact)
    executor.keep_programs()
    inputs = options.reference_inputs(artifact)
    with finishing_on_signals() as stop:
        wall, kernels = _measure(executor, inputs, args.warmup, args.runs, stop)
    if not wall.size:
        raise StoppedError(stop.number)
    print(f"{artifact.manifest.name} on {executor.info.device}")
    print(f"run_model, {wall.size} runs after {args.warmup} warm-ups, milliseconds:")
    print(_percentiles("wall", wall))
    if args.profile:
        device_time = np.array([sum(k.nanoseconds for k in turn) for turn in kernels]) / 1e6
        print(_percentiles("kernels", device_time))
        print(_percentiles("the rest", wall - device_time))
        print(_kernel_table(kernels))
    return tell_stopped(stop, f"after {wall.size} of {args.runs} runs")


def _measure(
    executor: Executor,
    inputs: dict[str, npt.NDArray[np.generic]],
    warmup: int,
    runs: int,
    stop: Stop,
) -> tuple[npt.NDArray[np.float64], list[list[KernelTime]]]:
    wall, kernels = [], []
    for turn in range(warmup + runs):
        if stop.is_set():
            break
        start = time.perf_counter_ns()
        executor.run("run_model", inputs)
        elapsed = time.perf_counter_ns() - start
        if turn >= warmup:
            wall.append(elapsed / 1e6)
            kernels.append(executor.kernel_times())
    return np.array(wall), kernels


def _percentiles(name: str, values: npt.NDArray[np.float64]) -> str:
    p50, p90, p99 = np.percentile(values, [50, 90, 99])
    return f"  {name:<9} p50 {p50:8.3f}  p90 {p90:8.3f}  p99 {p99:8.3f}  max {values.max():8.3f}"


def _kernel_table(turns: list[list[KernelTime]]) -> str:
    """One line per launch, slowest first: median microseconds, share, rate, kernel, ONNX nodes."""
    times: dict[int, list[int]] = defaultdict(list)
    calls: dict[int, Call] = {}
    for turn in turns:
        for index, timed in enumerate(turn):
            times[index].append(timed.nanoseconds)
            calls[index] = timed.call
    medians = {index: float(np.median(found)) / 1e3 for index, found in times.items()}
    total = sum(medians.values()) or 1.0
    lines = [f"  {'µs':>9} {'share':>6} {'GMAC/s':>7}  kernel and nodes"]
    for index in sorted(medians, key=lambda i: -medians[i]):
        call, micro = calls[index], medians[index]
        rate = f"{call.macs / micro / 1e3:7.1f}" if call.macs and micro else "      –"
        nodes = ", ".join(call.nodes)
        lines.append(f"  {micro:9.1f} {micro / total:6.1%} {rate}  {call.kernel}  [{nodes}]")
    return "\n".join(lines)
