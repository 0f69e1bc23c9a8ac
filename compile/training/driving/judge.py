"""`modeld-compile evaluate`: how well weights see, in numbers, pictures and an exit status."""

import hashlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from compile.device import use_device
from compile.reference.shipped import release, released_files, rounded, shipped
from compile.reference.weights import Array, load
from compile.training import checkpoint
from compile.training.driving.evaluate import (
    HELD_OUT_SEED,
    REPORT,
    STEPS,
    Metrics,
    evaluate,
    save_report,
)
from compile.training.loop import CHECKPOINTS
from compile.training.record import RunRecord
from modeld.command_line import claim_files
from modeld.console import open_console
from modeld.errors import ModeldError
from modeld.files import make_folder
from modeld.opencl import select_device


@dataclass(frozen=True, slots=True)
class _Origin:
    """The checkpoint that weights are from: sha256 of its manifest, and what that says."""

    sha256: str
    record: RunRecord


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure: a run's directory, a weights file, or None for what is shipped."""

    weights: Path | None
    size: str
    drives: int
    out: Path
    device: str | None = None
    release: Path | None = None


def run(request: Request) -> int:
    """Measure, write `out`, print the table; 0 when every goal is met, else 1.

    Raises ModeldError for weights that cannot be read or do not belong to the size.
    """
    if request.drives < 1:
        raise ModeldError(f"{request.drives} drives measure nothing; use 1 or more")
    weights, origin = _weights(request)
    if request.release is not None:
        if origin is None:
            raise ModeldError("only a run knows how its weights were made; name a run's directory")
        weights = rounded(weights)
    use_device(select_device(request.device))
    _claim(request)
    metrics = evaluate(weights, request.size, request.drives, progress=_shown)
    save_report(metrics, request.out)
    if request.release is not None and origin is not None:
        record = _record(origin, metrics, request)
        release(weights, record, request.size, request.release)
    for name, row in metrics.summary().items():
        verdict = "ok" if row["met"] else "MISSED"
        sys.stdout.write(f"{name:42s} {row['value']:8.4f}  (goal {row['limit']})  {verdict}\n")
    return 0 if metrics.passed() else 1


def _claim(request: Request) -> None:
    make_folder(request.out)
    files = [request.out / name for name in REPORT]
    if request.release is not None:
        make_folder(request.release)
        files += released_files(request.release, request.size)
    claim_files(*files)


def _shown(batches: range) -> Iterable[int]:
    return track(batches, "driving", console=open_console(stderr=True), transient=True)


def _weights(request: Request) -> tuple[dict[str, Array], _Origin | None]:
    path = request.weights
    if path is None:
        return shipped(request.size)[0], None
    if not path.is_dir():
        return load(path), None
    latest = checkpoint.CheckpointStore(path / CHECKPOINTS).latest()
    if latest is None:
        raise ModeldError(f"{path} has no checkpoint; name a run's directory or a weights file")
    snapshot = checkpoint.load(latest)
    arrays = {
        name: np.frombuffer(bytearray(stored.data), stored.dtype).reshape(stored.shape)
        for name, stored in snapshot.parameters.items()
    }
    manifest = (latest / checkpoint.MANIFEST).read_bytes()
    return arrays, _Origin(hashlib.sha256(manifest).hexdigest(), snapshot.record)


def _record(origin: _Origin, metrics: Metrics, request: Request) -> dict[str, Any]:
    """How the weights were made and what they were measured at, as JSON."""
    record = origin.record
    return {
        "licence": "MIT",
        "size": request.size,
        "checkpoint": {
            "sha256": origin.sha256,
            "step": record.step,
            "tinygrad": record.tinygrad,
            "devices": record.devices,
        },
        **record.position,
        "evaluation": {
            "seed": HELD_OUT_SEED,
            "drives": request.drives,
            "steps": STEPS,
            "goals": metrics.summary(),
        },
    }
