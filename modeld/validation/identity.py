"""The manifest's list of files, its target, and its known runs."""

import re
from decimal import Decimal, InvalidOperation

from modeld.manifest import (
    KERNELS_DIRECTORY,
    REFERENCE_FILE,
    WEIGHTS_FILE,
    FileEntry,
    Manifest,
    Reference,
    Target,
    head_name,
)
from modeld.validation.rules import MAX_BYTES, quoted, require_between, require_unique, unsound

MAX_ALIGNMENT = 1 << 16
# A self-test runs every seed this often before the daemon is ready; builds use 2 seeds.
MAX_SEEDS = 64
MAX_TURNS = 1000
DEVICE_CLASSES = ("cpu", "gpu")
SHA256 = re.compile(r"[0-9a-f]{64}")
DECIMAL_CHARACTERS = 40


def check_identity(manifest: Manifest) -> None:
    """Raise ModeldError unless files, target and reference are sound."""
    if not manifest.name.isprintable():
        raise unsound(f"name {quoted(manifest.name)} has characters that cannot be printed")
    _check_files(manifest.files)
    _check_target(manifest.target)
    _check_reference(manifest)


def _check_files(files: tuple[FileEntry, ...]) -> None:
    require_unique("file", (entry.path for entry in files))
    for entry in files:
        require_between(f"bytes of {quoted(entry.path)}", entry.bytes, 0, MAX_BYTES)
        if not SHA256.fullmatch(entry.sha256):
            raise unsound(f"sha256 of {quoted(entry.path)} is {quoted(entry.sha256)}")
        kernel = f"{KERNELS_DIRECTORY}/{entry.sha256}.cl"
        if entry.path not in (WEIGHTS_FILE, REFERENCE_FILE, kernel):
            raise unsound(
                f"file {quoted(entry.path)} is none of {WEIGHTS_FILE}, {REFERENCE_FILE} and "
                f"{KERNELS_DIRECTORY}/<sha256>.cl"
            )
    for path in sorted({WEIGHTS_FILE, REFERENCE_FILE} - {entry.path for entry in files}):
        raise unsound(f"{path} is not listed")


def _check_target(target: Target) -> None:
    require_between("target.alignment", target.alignment, 1, MAX_ALIGNMENT)
    if target.alignment & (target.alignment - 1):
        raise unsound(f"target.alignment is {target.alignment}, which is no power of two")
    if target.device_class not in DEVICE_CLASSES:
        raise unsound(f"target.device_class is {quoted(target.device_class)}, neither cpu nor gpu")


def _check_reference(manifest: Manifest) -> None:
    reference, contract = manifest.reference, manifest.contract
    state = {pair.output for pair in contract.state}
    outputs = {tensor.name for tensor in contract.outputs} - state
    require_between("number of reference.seeds", len(reference.seeds), 1, MAX_SEEDS)
    require_between("reference.turns", reference.turns, 1, MAX_TURNS)
    require_unique("tolerance of", (t.output for t in reference.tolerances))
    heads = {head_name(head) for head in contract.output_slices}
    for name in sorted(outputs ^ ({t.output for t in reference.tolerances} - heads)):
        raise unsound(f"output {quoted(name)} and reference.tolerances do not go together")
    for seed in reference.seeds:
        require_between("a reference seed", seed, 0, MAX_BYTES)
    _check_tolerances(reference)


def _check_tolerances(reference: Reference) -> None:
    for tolerance in reference.tolerances:
        for text in (tolerance.absolute, tolerance.relative):
            if not _is_allowance(text):
                raise unsound(
                    f"tolerance of {quoted(tolerance.output)} is {quoted(text)}, "
                    "which is no finite decimal from 0"
                )


def _is_allowance(text: str) -> bool:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    # Its value as a float must be finite too, since it is compared as one.
    return len(text) <= DECIMAL_CHARACTERS and number.is_finite() and 0 <= number < Decimal("1e300")
