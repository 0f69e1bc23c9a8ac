"""What is in an artifact, for people and (as JSON) for programs."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from safetensors.numpy import load

from modeld.artifact import Artifact
from modeld.executor import Executor
from modeld.manifest import REFERENCE_FILE, Call, EntryPoint, Manifest, Tensor
from modeld.selftest import check, named

MEASURED_RUNS = 20


def measure(artifact: Artifact, executor: Executor) -> list[float]:
    """Median device time of every `run_model` launch in microseconds, on the known inputs.

    The executor must have been made with `profile=True`. Raises ModeldError when its self-test
    fails.
    """
    check(executor, artifact)
    seed = artifact.manifest.reference.seeds[0]
    inputs = named(load(artifact.read(REFERENCE_FILE)), f"{seed}/input/")
    times = []
    for _ in range(MEASURED_RUNS):
        executor.run("run_model", inputs)
        times.append([kernel.nanoseconds for kernel in executor.kernel_times()])
    return [float(time) / 1e3 for time in np.median(np.array(times), axis=0)]


def call_bytes(call: Call) -> int:
    """Bytes of all arguments: what a launch touches at least once, if it touches all of each."""
    return sum(argument.bytes for argument in call.arguments)


def summary(artifact: Artifact, times: Sequence[float] | None = None) -> dict[str, Any]:
    """The manifest with its identity, totals, and measured microseconds where there are any."""
    manifest = artifact.manifest
    model = model_entry(manifest)
    return {
        "identity": artifact.digest,
        "manifest": dataclasses.asdict(manifest),
        "totals": {
            "launches": len(model.calls),
            "macs": sum(call.macs for call in model.calls),
            "weight_bytes": sum(weight.bytes for weight in manifest.weights),
            "device_bytes": sum(buffer.bytes for buffer in manifest.buffers),
        },
        "microseconds": None if times is None else list(times),
    }


def model_entry(manifest: Manifest) -> EntryPoint:
    """The `run_model` entry point."""
    return next(entry for entry in manifest.entry_points if entry.name == "run_model")


def report(artifact: Artifact, times: Sequence[float] | None = None) -> str:
    """All of `inspect` as text."""
    manifest = artifact.manifest
    sections = (
        _header(artifact),
        _contract(manifest),
        _memory(manifest),
        _known(manifest),
        _kernels(manifest, times),
    )
    return "\n\n".join("\n".join(section) for section in sections)


def _header(artifact: Artifact) -> Iterator[str]:
    m = artifact.manifest
    yield f"{m.name}  {artifact.digest}"
    for file in m.source.files:
        yield f"  source     {file.name}  {file.bytes:,} bytes  sha256 {file.sha256}"
    opsets = ", ".join(f"{domain} {version}" for domain, version in sorted(m.source.opsets.items()))
    yield f"  onnx       IR {m.source.ir_version}, opset {opsets}, by {m.source.producer or '?'}"
    yield f"  made by    {m.created_by}, tinygrad {m.toolchain.tinygrad}"
    flags = ", ".join(f"{name}={value}" for name, value in sorted(m.toolchain.flags.items()))
    yield f"  flags      {flags or 'none'}; OpenCL options: {m.toolchain.build_options or 'none'}"
    yield f"  target     {m.target.device} on {m.target.platform}, driver {m.target.driver}"
    needs = ", ".join(m.target.extensions) or "no extension"
    yield f"  needs      {m.target.device_class}, {needs}, alignment {m.target.alignment}"
    yield f"  dtypes     weights {m.dtypes.weights}, compute {m.dtypes.compute}, " + (
        f"sums {m.dtypes.accumulate}"
    )


def _contract(manifest: Manifest) -> Iterator[str]:
    contract = manifest.contract
    states = {pair.input: pair.output for pair in contract.state}
    yield f"contract: {contract.kind} ({contract.generation})"
    for tensor in contract.inputs:
        yield "  " + _tensor("state" if tensor.name in states else "input", tensor)
    for tensor in contract.outputs:
        if tensor.name not in states.values():
            yield "  " + _tensor("output", tensor)
    for frozen in contract.frozen:
        yield f"  frozen  {frozen.name}  {frozen.dtype}{list(frozen.shape)}  {frozen.sha256[:12]}…"
    if contract.cameras:
        yield "  cameras " + ", ".join(camera.name for camera in contract.cameras)
    for head in contract.output_slices:
        yield f"  head    [{head.start}:{head.stop}]  {head.name}"


def _tensor(kind: str, tensor: Tensor) -> str:
    return f"{kind:<7} {tensor.name}  {tensor.dtype}{list(tensor.shape)}  {tensor.meaning}".rstrip()


def _memory(manifest: Manifest) -> Iterator[str]:
    total = sum(buffer.bytes for buffer in manifest.buffers)
    yield f"memory: {total:,} bytes on the device"
    for buffer in sorted(manifest.buffers, key=lambda b: -b.bytes):
        yield f"  {buffer.bytes:>14,}  {buffer.role:<8} {buffer.name}"
    peak, alone = _scratch(model_entry(manifest))
    yield f"  arena: peak {peak:,} bytes live in one launch; its tensors laid apart: {alone:,}"


def _scratch(entry: EntryPoint) -> tuple[int, int]:
    """(most arena bytes in the arguments of one launch, sum over distinct written tensors)."""
    peak = alone = 0
    for call in entry.calls:
        used = {(a.offset, a.bytes) for a in call.arguments if a.buffer == "arena"}
        peak = max(peak, sum(size for _, size in used))
        alone += sum(a.bytes for a in call.arguments if a.buffer == "arena" and a.access != "read")
    return peak, alone


def _known(manifest: Manifest) -> Iterator[str]:
    reference = manifest.reference
    seeds = ", ".join(str(seed) for seed in reference.seeds)
    yield f"known runs: seeds {seeds}, {reference.turns} turns, outputs {reference.digest[:12]}…"
    errors = {error.output: error for error in reference.errors}
    for tolerance in reference.tolerances:
        error = errors.get(tolerance.output)
        found = (
            f"differs from {error.against} by {error.absolute} ({error.relative_to_range} of range)"
            if error
            else "compared with no second implementation"
        )
        yield f"  {tolerance.output}: {found}, allowed {tolerance.absolute}"


def _kernels(manifest: Manifest, times: Sequence[float] | None) -> Iterator[str]:
    calls = model_entry(manifest).calls
    macs = sum(call.macs for call in calls)
    yield f"run_model: {len(calls)} launches, {macs / 1e6:.1f} M multiply-accumulates"
    total = sum(times) if times else 0.0
    measured = f" {'µs':>9} {'share':>6}" if times else ""
    yield f"  {'#':>3}{measured} {'M MAC':>8} {'kB':>8}  kernel [nodes]"
    for number, call in enumerate(calls):
        timing = f" {times[number]:9.1f} {times[number] / total:6.1%}" if times else ""
        yield (
            f"  {number:>3}{timing} {call.macs / 1e6:8.2f} {call_bytes(call) / 1e3:8.0f}  "
            f"{call.kernel} [{', '.join(call.nodes)}]"
        )


def explain(manifest: Manifest, node: str) -> Mapping[int, Call]:
    """The launches, by number, that compute the ONNX node `node`."""
    return {
        number: call
        for number, call in enumerate(model_entry(manifest).calls)
        if node in call.nodes
    }


def differences(first: Manifest, second: Manifest) -> Iterator[str]:
    """What changed from one artifact to another, one line each; nothing where they agree."""
    for name in ("name", "source", "toolchain", "target", "dtypes", "contract", "buffers"):
        yield from _changed(name, getattr(first, name), getattr(second, name))
    before, after = (_kernel_counts(manifest) for manifest in (first, second))
    for key in sorted(before.keys() | after.keys()):
        if before.get(key, 0) != after.get(key, 0):
            counts = f"{before.get(key, 0)} → {after.get(key, 0)}"
            yield f"kernel {key[0]} ({key[1]}): {counts} launches"
    hashes = [{f.path: f.sha256 for f in manifest.files} for manifest in (first, second)]
    for path in sorted(p for p in hashes[0].keys() & hashes[1].keys() if "/" not in p):
        if hashes[0][path] != hashes[1][path]:
            yield f"{path}: sha256 {hashes[0][path][:12]}… → {hashes[1][path][:12]}…"
    sizes = [{w.name: w.bytes for w in manifest.weights} for manifest in (first, second)]
    yield from _changed("weights", sizes[0], sizes[1])


def _kernel_counts(manifest: Manifest) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for entry in manifest.entry_points:
        for call in entry.calls:
            key = (call.kernel, call.program.rpartition("/")[2][:12])
            counts[key] = counts.get(key, 0) + 1
    return counts


def _changed(path: str, before: Any, after: Any) -> Iterator[str]:
    if before == after:
        return
    if dataclasses.is_dataclass(before) and type(before) is type(after):
        for field in dataclasses.fields(before):
            yield from _changed(
                f"{path}.{field.name}", getattr(before, field.name), getattr(after, field.name)
            )
    elif isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from _changed(f"{path}.{key}", before.get(key), after.get(key))
    elif isinstance(before, tuple) and isinstance(after, tuple):
        named_before, named_after = (_by_name(values) for values in (before, after))
        yield from _changed(path, named_before, named_after)
    else:
        yield f"{path}: {_short(before)} → {_short(after)}"


def _by_name(values: tuple[Any, ...]) -> dict[str, Any]:
    """Named things by their name; others by their place."""
    return {str(getattr(value, "name", number)): value for number, value in enumerate(values)}


def _short(value: Any) -> str:
    if value is None:
        return "absent"
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."
