"""Captured launches, contract and memory plan → the manifest and the files it lists."""

import importlib.metadata
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compile.attribution import Attribution
from compile.capture import Capture
from compile.device import BUILD_OPTIONS
from compile.emit import artifact_files, file_entries, kernel_path
from compile.images import EXTENSION as IMAGE_EXTENSION
from compile.memory import MemoryPlan
from compile.samples import TURNS
from compile.verify import Known
from compile.warp import WarpProgram
from modeld.manifest import (
    FORMAT,
    FORMAT_VERSION,
    Budget,
    Call,
    Contract,
    Dtypes,
    EntryPoint,
    Manifest,
    OutputError,
    Reference,
    Source,
    Target,
    Tolerance,
    Toolchain,
    Weight,
)
from modeld.opencl import DeviceInfo

Array = npt.NDArray[np.generic]

_EXTENSION_PRAGMA = re.compile(r"#pragma OPENCL EXTENSION (\w+) *: *enable")


@dataclass(frozen=True)
class Parts:
    """Everything a manifest is made from."""

    name: str
    source: Source
    flags: Mapping[str, str]
    device: DeviceInfo
    contract: Contract
    capture: Capture
    attribution: Attribution
    plan: MemoryPlan
    warps: Sequence[WarpProgram]
    known: Known
    tuning_sha256: str
    digest: str
    tolerances: tuple[Tolerance, ...]
    errors: tuple[OutputError, ...]
    image_rows: int


def assemble(parts: Parts) -> tuple[Manifest, dict[str, bytes]]:
    """The manifest, and the contents of the files that it lists by path."""
    sources = {kernel_path(launch.source): launch.source for launch in parts.capture.launches}
    sources |= {kernel_path(warp.source): warp.source for warp in parts.warps}
    weights, weight_arrays = _weights(parts)
    files = artifact_files(sources, weight_arrays, _reference_arrays(parts.known))
    entry_points = (*(_warp_entry(warp) for warp in parts.warps), _model_entry(parts))
    manifest = Manifest(
        format=FORMAT,
        format_version=FORMAT_VERSION,
        name=parts.name,
        created_by=f"modeld-compile {importlib.metadata.version('modeld')}",
        source=parts.source,
        toolchain=Toolchain(
            compiler=importlib.metadata.version("modeld"),
            tinygrad=importlib.metadata.version("tinygrad"),
            flags=dict(parts.flags),
            build_options=BUILD_OPTIONS,
            tuning_sha256=parts.tuning_sha256,
        ),
        target=_target(parts, sources.values()),
        dtypes=_dtypes(parts.capture),
        contract=parts.contract,
        buffers=(*parts.plan.buffers, *(b for warp in parts.warps for b in warp.buffers)),
        bindings=(*parts.plan.bindings, *(b for warp in parts.warps for b in warp.bindings)),
        entry_points=entry_points,
        weights=weights,
        reference=Reference(
            seeds=tuple(sorted(parts.known.inputs)),
            turns=TURNS,
            tolerances=parts.tolerances,
            digest=parts.digest,
            errors=parts.errors,
        ),
        budget=Budget(
            kernels=len(parts.capture.launches),
            image_reads=sum(
                operand.image is not None and operand.access == "read"
                for launch in parts.capture.launches
                for operand in launch.operands
            ),
        ),
        files=file_entries(files),
    )
    return manifest, files


def _model_entry(parts: Parts) -> EntryPoint:
    calls = tuple(
        Call(
            program=kernel_path(launch.source),
            kernel=launch.kernel,
            global_size=launch.global_size,
            local_size=launch.local_size,
            arguments=tuple(parts.plan.argument(operand) for operand in launch.operands),
            nodes=nodes,
            macs=macs,
        )
        for launch, nodes, macs in zip(
            parts.capture.launches, parts.attribution.nodes, parts.attribution.macs, strict=True
        )
    )
    return EntryPoint("run_model", None, calls)


def _warp_entry(warp: WarpProgram) -> EntryPoint:
    call = Call(
        program=kernel_path(warp.source),
        kernel=warp.kernel,
        global_size=warp.global_size,
        local_size=warp.local_size,
        arguments=warp.arguments,
        nodes=(),
        macs=0,
    )
    return EntryPoint("run_warp", warp.camera, (call,))


def _weights(parts: Parts) -> tuple[tuple[Weight, ...], dict[str, Array]]:
    entries, arrays = [], {}
    for storage, place in zip(parts.capture.storages, parts.plan.ranges, strict=True):
        if storage.data is None:
            continue
        name, number = storage.name, 1
        while name in arrays:
            number += 1
            name = f"{storage.name}#{number}"
        arrays[name] = storage.data
        entries.append(Weight(name, place.offset, place.bytes))
    return tuple(entries), arrays


def _reference_arrays(known: Known) -> dict[str, Array]:
    return {
        f"{seed}/{kind}/{name}": np.asarray(array, order="C")
        for kind, runs in (("input", known.inputs), ("output", known.outputs))
        for seed, arrays in runs.items()
        for name, array in arrays.items()
    }


def _target(parts: Parts, sources: Collection[str]) -> Target:
    device = parts.device
    needed = {name for text in sources for name in _EXTENSION_PRAGMA.findall(text)}
    if any(re.search(r"\bdouble\d*\b", text) for text in sources):
        needed.add("cl_khr_fp64")
    if parts.image_rows:
        needed.add(IMAGE_EXTENSION)
    return Target(
        platform=device.platform,
        device=device.device,
        driver=device.driver,
        opencl_c=device.opencl_c,
        extensions=tuple(sorted(needed)),
        alignment=parts.plan.alignment,
        image_pitch_alignment=parts.image_rows,
        device_class=device.device_class,
    )


def _dtypes(capture: Capture) -> Dtypes:
    """The type of most weight bytes; arithmetic follows the model and sums are float32."""
    sizes: dict[str, int] = {}
    for storage in capture.storages:
        if storage.data is not None:
            name = storage.data.dtype.name
            sizes[name] = sizes.get(name, 0) + storage.bytes
    weights = max(sorted(sizes), key=lambda name: sizes[name]) if sizes else "float32"
    return Dtypes(weights=weights, compute="float32", accumulate="float32")
