"""A tiny artifact written by hand, so that runtime tests need no compiler.

outputs = weight * x + memory,  next_memory = memory + x   (float32, 8 elements)
"""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from modeld.manifest import (
    Argument,
    Binding,
    Budget,
    Buffer,
    Call,
    Contract,
    Dtypes,
    EntryPoint,
    FileEntry,
    Manifest,
    Reference,
    Source,
    StatePair,
    Target,
    Tensor,
    Tolerance,
    Toolchain,
    Weight,
    canonical_bytes,
    manifest_digest,
)
from modeld.opencl import describe_device, select_device

SIZE = 8
# Quarters, so that sums are exact whether or not the compiler fuses multiply and add.
WEIGHT = np.arange(SIZE, dtype=np.float32) / 4 - 1
KERNEL = b"""
__kernel void turn(__global float* out, __global float* next, __global const float* memory,
                   __global const float* x, __global const float* weight) {
  int i = get_global_id(0);
  out[i] = weight[i] * x[i] + memory[i];
  next[i] = memory[i] + x[i];
}
"""


def _argument(buffer: str, access: str, offset: int = 0) -> Argument:
    return Argument(buffer, offset, SIZE * 4, access)


def toy_manifest(files: dict[str, bytes], **changes: Any) -> Manifest:
    device = describe_device(select_device())
    vector = (SIZE,)
    program = next(path for path in files if path.endswith(".cl"))
    call = Call(
        program,
        "turn",
        (SIZE,),
        None,
        (
            _argument("outputs", "write"),
            _argument("next_memory", "write"),
            _argument("memory", "read"),
            _argument("inputs", "read", 512),
            _argument("weights", "read", 1024),
        ),
        ("Add_0",),
        SIZE,
    )
    x = np.arange(SIZE, dtype=np.float32)
    expected = [np.ascontiguousarray(WEIGHT * x * (s + 1) + x * (s + 1)) for s in range(2)]
    manifest = Manifest(
        format="modeld-artifact",
        format_version=1,
        name="toy",
        created_by="tests",
        source=Source((), 8, {"": 17}, "tests", {}),
        toolchain=Toolchain("tests", "0.14.0", {}, "", ""),
        target=Target(
            device.platform,
            device.device,
            device.driver,
            device.opencl_c,
            (),
            512,
            0,
            device.device_class,
        ),
        dtypes=Dtypes("float32", "float32", "float32"),
        contract=Contract(
            "generic",
            "generic",
            (Tensor("x", vector, "float32"), Tensor("memory", vector, "float32")),
            (Tensor("y", vector, "float32"), Tensor("next_memory", vector, "float32")),
            (StatePair("memory", "next_memory"),),
            (),
            (),
            (),
        ),
        buffers=(
            Buffer("weights", 2048, "weights"),
            Buffer("inputs", 1024, "input"),
            Buffer("outputs", SIZE * 4, "output"),
            Buffer("memory", SIZE * 4, "state"),
            Buffer("next_memory", SIZE * 4, "state"),
        ),
        bindings=(
            Binding("x", "inputs", 512, SIZE * 4),
            Binding("y", "outputs", 0, SIZE * 4),
            Binding("memory", "memory", 0, SIZE * 4),
            Binding("next_memory", "next_memory", 0, SIZE * 4),
        ),
        entry_points=(EntryPoint("run_model", None, (call,)),),
        weights=(Weight("weight", 1024, SIZE * 4),),
        reference=Reference(
            (0, 1),
            2,
            (Tolerance("y", "0", "0"),),
            hashlib.sha256(b"".join(e.tobytes() for e in expected)).hexdigest(),
            (),
        ),
        budget=Budget(1, 0),
        files=tuple(
            FileEntry(path, len(content), hashlib.sha256(content).hexdigest())
            for path, content in sorted(files.items())
        ),
    )
    return dataclasses.replace(manifest, **changes)


def toy_files() -> dict[str, bytes]:
    x = np.arange(SIZE, dtype=np.float32)
    stored = {}
    for seed in range(2):
        stored[f"{seed}/input/x"] = x * (seed + 1)
        stored[f"{seed}/output/y"] = WEIGHT * x * (seed + 1) + x * (seed + 1)
    return {
        f"kernels/{hashlib.sha256(KERNEL).hexdigest()}.cl": KERNEL,
        "weights.safetensors": save({"weight": WEIGHT}),
        "reference.safetensors": save(stored),
    }


def write_toy(directory: Path, **changes: Any) -> str:
    """Write the toy artifact to `directory`; returns its pin. `changes` replace manifest fields."""
    files = toy_files()
    for path, content in files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(content)
    content = canonical_bytes(toy_manifest(files, **changes))
    (directory / "manifest.json").write_bytes(content)
    return manifest_digest(content)
