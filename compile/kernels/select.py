"""Whether and how a model gets kernels of our own, for the build."""

import platform
from dataclasses import dataclass
from pathlib import Path

import onnx
import pyopencl as cl

from compile.fuse import fuse
from compile.importer import ImportedModel
from compile.progress import Progress
from compile.tune import DeviceTimer, Tiles, Tuning, load_tuning, save_tuning, shipped_tuning
from modeld.errors import ModeldError
from modeld.opencl import describe_device


@dataclass(frozen=True)
class OwnKernels:
    """The model with our kernels in it, and the hash of the tuning that chose their tiles."""

    model: onnx.ModelProto
    tuning_sha256: str


def own_kernels(
    imported: ImportedModel,
    device: cl.Device,
    tuned: bool,
    tuning_file: Path | None,
    budget_s: float | None,
    progress: Progress,
) -> OwnKernels:
    """Put our kernels into a model for `device`.

    With `tuned` false, or on a device of a class that has no kernels yet, the model stays as it
    is. With `budget_s` tiles that the tuning lacks are timed on the device at most that long, and
    `tuning_file` is written. Raises ModeldError for a bad tuning file or a budget without one.
    """
    if budget_s is not None and (tuning_file is None or not tuned):
        raise ModeldError("--tune needs --tuning FILE.json to write to, and no --no-tuned")
    info = describe_device(device)
    if not tuned or info.device_class not in ("cpu", "gpu"):
        return OwnKernels(imported.model, "")
    if info.device_class == "gpu":
        model = fuse(imported.model, Tiles(Tuning()), imported.base_dir, "gpu")
        return OwnKernels(model, "")
    width = device.native_vector_width_float
    if tuning_file is None:
        tuning = shipped_tuning(info.device_class, platform.machine(), width)
    elif budget_s is not None and not tuning_file.exists():
        tuning = Tuning(info.device)
    else:
        tuning = load_tuning(tuning_file)
    if budget_s is None:
        tiles = Tiles(tuning, native_width=width)
        model = fuse(imported.model, tiles, imported.base_dir)
        return OwnKernels(model, tiles.chosen.digest)
    progress.note("timing tiles on the device")
    tiles = Tiles(tuning, DeviceTimer(device), budget_s, native_width=width)
    model = fuse(imported.model, tiles, imported.base_dir)
    if tuning_file is not None:
        known = Tuning(tuning.device, {**tuning.tiles, **tiles.chosen.tiles})
        save_tuning(tuning_file, known)
    return OwnKernels(model, tiles.chosen.digest)
