"""`python -m benchmarks`: our artifacts against what people would use instead.

Every peer runs in a process of its own, call by call in turn on the same inputs, and stands still
while others run; first their outputs are compared. Results go to a folder as Markdown, JSON and a
bar chart.
"""

import argparse
import os
import platform
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks import measure, peers, report
from benchmarks.contender import Contender
from benchmarks.models import MODELS, Model
from compile.device import use_device
from modeld import wake_latency
from modeld.opencl import select_device

# Float32 sums in another order: what two correct implementations may differ by, of the range.
TOLERANCE = 1e-3


def main() -> int:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--models", nargs="*", help="names to take (default: all)")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("out/benchmark"))
    parser.add_argument("--without", nargs="*", default=[], help="peers to leave out")
    parser.add_argument(
        "--add", action="store_true", help="keep what --out holds of models not measured now"
    )
    parser.add_argument(
        "--no-cold", action="store_true", help="leave out cold starts, which take minutes"
    )
    parser.add_argument(
        "--artifacts", type=Path, help="folder with artifacts built before, by model name"
    )
    parser.add_argument("--build-option", action="append", default=[], help="for our artifacts")
    args = parser.parse_args()
    device = select_device()
    use_device(device)
    product = measure.Product(device)
    say(f"practical peak {product():.0f} GFLOP/s on {device.name.strip()}")
    results = report.read(args.out) if args.add else []
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        for model in MODELS:
            if args.models and model.name not in args.models:
                continue
            result = compare(model, Path(folder), args, product)
            if result:
                results = _in_order([*(r for r in results if r.model != model.name), result])
                awake = "kept awake" if os.access(wake_latency.DEVICE, os.W_OK) else "may sleep"
                machine = (
                    f"{platform.machine()}, {device.name.strip()}, {device.version.strip()}; "
                    f"processors {awake} between calls"
                )
                report.write(args.out, results, machine)
    if not results:
        return 1
    print((args.out / "benchmark.md").read_text())
    return 0


def _in_order(results: list[report.Result]) -> list[report.Result]:
    """As MODELS has them."""
    names = [model.name for model in MODELS]
    return sorted(results, key=lambda result: names.index(result.model))


def compare(
    model: Model, folder: Path, args: argparse.Namespace, product: measure.Product
) -> report.Result | None:
    """Everything about one model; None, said aloud, where its data is missing or outputs differ."""
    path = model.path(folder)
    if path is None:
        say(f"{model.name}: {model.source} is not in the data folder, left out")
        return None
    artifact, cache = folder / f"{model.name}.artifact", folder / f"{model.name}.cache"
    build_s = None
    if args.artifacts and (args.artifacts / model.name).is_dir():
        artifact = args.artifacts / model.name
    else:
        build_s = measure.build(path, artifact, args.build_option)
    with ExitStack() as entered:
        entrants = {"ours": entered.enter_context(Contender("ours", path, artifact, folder))}
        for name in report.PEERS:
            if name in args.without:
                continue
            try:
                contender = Contender(name, path, artifact, folder)
            except RuntimeError as error:
                say(f"{error}, left out")
                continue
            entrants[name] = entered.enter_context(contender)
        outputs = {name: contender.outputs() for name, contender in entrants.items()}
        first = outputs.pop("ours")
        difference = max((measure.difference(first, o) for o in outputs.values()), default=0.0)
        if difference > TOLERANCE:
            say(f"{model.name}: outputs differ by {difference:.1e} of their range, left out")
            return None
        timings = measure.interleave(entrants, args.runs)
    ours, inputs = peers.Ours(artifact, profile=True), peers.random_inputs(path)
    shares = measure.shares(ours, inputs, product, 20)
    cold = None if args.no_cold else measure.alone("ours", path, artifact, cache)
    alone = {
        name: measure.alone(name, path, artifact, None if args.no_cold else cache)
        for name in entrants
        if name != "tinygrad"
    }
    manifest = ours.executor.artifact.manifest
    calls = [c for e in manifest.entry_points if e.name == "run_model" for c in e.calls]
    say(f"{model.name}: " + ", ".join(f"{n} {t.median:.2f} ms" for n, t in timings.items()))
    return report.Result(
        model=model.name,
        macs=sum(call.macs for call in calls),
        launches=len(calls),
        timings=timings,
        difference=difference,
        device_ms=shares.device_ms,
        peak_gflops=shares.peak,
        share_by_time=shares.by_time,
        share_dense=shares.dense,
        arena_bytes=sum(b.bytes for b in manifest.buffers if b.role == "arena"),
        build_s=build_s,
        cold_start_s=cold["start_s"] if cold else None,
        warm_start_s=alone["ours"]["start_s"],
        peak_kib={name: one["peak_kib"] for name, one in alone.items()},
        kernels=shares.kernels,
    )


def say(text: str) -> None:
    """Progress, apart from the result."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
