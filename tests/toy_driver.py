"""A tiny driving artifact written by hand: the whole contract, and nearly no arithmetic.

run_warp copies the first bytes of both frames; outputs[i] = new_img[i] / 256 - 1/2, and one
element of state counts the turns.
"""

import hashlib
from pathlib import Path

import numpy as np
from safetensors.numpy import save
from toy_artifact import toy_files, toy_manifest

from modeld.fakes.executor import OUTPUT_SIZE, driving_contract
from modeld.manifest import (
    Argument,
    Binding,
    Buffer,
    Call,
    Camera,
    EntryPoint,
    Reference,
    StatePair,
    Tensor,
    Tolerance,
    canonical_bytes,
    manifest_digest,
)

HALF = 6 * 128 * 256
KERNELS = b"""
__kernel void warp(__global uchar* new_img, __global const uchar* narrow,
                   __global const uchar* wide, __global const float* transforms,
                   __global const int* layout) {
  int i = get_global_id(0);
  int last = layout[1] - 1;
  new_img[i] = i < %d ? narrow[min(i, last)] : wide[min(i - %d, last)];
}
__kernel void model(__global float* out, __global float* next, __global const float* count,
                    __global const uchar* new_img) {
  int i = get_global_id(0);
  out[i] = new_img[i] / 256.0f - 0.5f;
  if (i == 0) next[0] = count[0] + 1.0f;
}
""" % (HALF, HALF)
SMALL = {"desire": (512, 32), "traffic_convention": (1024, 8), "action_t": (1536, 8)}
WARP = {"transforms": (2048, 72), "frame_layout": (2560, 16)}
SCALAR = Tensor("next_count", (1,), "float32")


def expected(new_img: np.ndarray) -> np.ndarray:
    return (new_img.ravel()[:OUTPUT_SIZE].astype(np.float32) / 256 - 0.5)[None]


def _reference() -> tuple[dict[str, np.ndarray], str]:
    stored, digest = {}, hashlib.sha256()
    for seed in (0, 1):
        image = np.random.default_rng(seed).integers(0, 256, (2, 6, 128, 256), np.uint8)
        stored[f"{seed}/input/new_img"] = image
        stored[f"{seed}/output/outputs"] = expected(image)
        for tensor in driving_contract().inputs[1:]:
            stored[f"{seed}/input/{tensor.name}"] = np.zeros(tensor.shape, tensor.dtype)
        digest.update(expected(image).tobytes())
    return stored, digest.hexdigest()


def _warp(program: str, width: int, height: int) -> EntryPoint:
    size = width * height * 3 // 2
    name = f"{width}x{height}"
    arguments = (
        Argument("new_img", 0, 2 * HALF, "write"),
        Argument(f"frame_narrow_{name}", 0, size, "read"),
        Argument(f"frame_wide_{name}", 0, size, "read"),
        Argument("inputs", *WARP["transforms"], "read"),
        Argument("inputs", *WARP["frame_layout"], "read"),
    )
    call = Call(program, "warp", (2 * HALF,), None, arguments, ("warp",), 0)
    return EntryPoint("run_warp", Camera(width, height), (call,))


def _model(program: str) -> EntryPoint:
    arguments = (
        Argument("outputs", 0, OUTPUT_SIZE * 4, "write"),
        Argument("next_count", 0, 4, "write"),
        Argument("count", 0, 4, "read"),
        Argument("new_img", 0, 2 * HALF, "read"),
    )
    call = Call(program, "model", (OUTPUT_SIZE,), None, arguments, ("model",), 0)
    return EntryPoint("run_model", None, (call,))


def write_driver(directory: Path, width: int = 64, height: int = 32) -> str:
    """Write the artifact for cameras of that size; returns its pin."""
    import dataclasses

    stored, digest = _reference()
    program = f"kernels/{hashlib.sha256(KERNELS).hexdigest()}.cl"
    files = {
        program: KERNELS,
        "weights.safetensors": toy_files()["weights.safetensors"],
        "reference.safetensors": save(stored),
    }
    contract = driving_contract(width, height)
    count = Tensor("count", (1,), "float32")
    frame = width * height * 3 // 2
    manifest = toy_manifest(
        files,
        name="toy-driver",
        contract=dataclasses.replace(
            contract,
            inputs=(*contract.inputs, count),
            outputs=(*contract.outputs, SCALAR),
            state=(StatePair("count", "next_count"),),
        ),
        buffers=(
            Buffer("weights", 2048, "weights"),
            Buffer("inputs", 3072, "input"),
            Buffer("new_img", 2 * HALF, "input"),
            Buffer("outputs", OUTPUT_SIZE * 4, "output"),
            Buffer("count", 4, "state"),
            Buffer("next_count", 4, "state"),
            Buffer(f"frame_narrow_{width}x{height}", frame, "frame"),
            Buffer(f"frame_wide_{width}x{height}", frame, "frame"),
        ),
        bindings=(
            *(Binding(n, "inputs", *where) for n, where in (SMALL | WARP).items()),
            Binding("new_img", "new_img", 0, 2 * HALF),
            Binding("outputs", "outputs", 0, OUTPUT_SIZE * 4),
            Binding("count", "count", 0, 4),
            Binding("next_count", "next_count", 0, 4),
            *(
                Binding(n, n, 0, frame)
                for side in ("narrow", "wide")
                for n in (f"frame_{side}_{width}x{height}",)
            ),
        ),
        entry_points=(_warp(program, width, height), _model(program)),
        reference=Reference((0, 1), 1, (Tolerance("outputs", "0", "0"),), digest, ()),
    )
    for path, content in files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(content)
    content = canonical_bytes(manifest)
    (directory / "manifest.json").write_bytes(content)
    return manifest_digest(content)
