"""Writing an artifact: all files into a temporary directory, which then takes its name at once."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from modeld.errors import ModeldError
from modeld.manifest import (
    KERNELS_DIRECTORY,
    MANIFEST_FILE,
    REFERENCE_FILE,
    WEIGHTS_FILE,
    FileEntry,
    Manifest,
    canonical_bytes,
    manifest_digest,
)

Array = npt.NDArray[np.generic]


def kernel_path(source: str) -> str:
    """The file of a kernel source: named by its hash, since two bodies can share a name."""
    return f"{KERNELS_DIRECTORY}/{hashlib.sha256(source.encode()).hexdigest()}.cl"


def artifact_files(
    sources: Mapping[str, str], weights: Mapping[str, Array], reference: Mapping[str, Array]
) -> dict[str, bytes]:
    """Contents of all files but the manifest, by path; `sources` is path to kernel source."""
    return {path: source.encode() for path, source in sorted(sources.items())} | {
        WEIGHTS_FILE: save(dict(weights)),
        REFERENCE_FILE: save(dict(reference)),
    }


def file_entries(files: Mapping[str, bytes]) -> tuple[FileEntry, ...]:
    """The manifest's list of files, sorted by path."""
    return tuple(
        FileEntry(path, len(content), hashlib.sha256(content).hexdigest())
        for path, content in sorted(files.items())
    )


def check_target(out: Path) -> None:
    """Raise ModeldError when `out` holds something that is no artifact, or cannot be written."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise ModeldError(f"{out} exists and is no directory; choose another --out")
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST_FILE).is_file():
        raise ModeldError(f"{out} exists and holds no artifact; choose another --out")
    if not out.parent.is_dir():
        raise ModeldError(f"{out.parent} is no directory; create it or choose another --out")
    if not os.access(out.parent, os.W_OK):
        raise ModeldError(f"{out.parent} is not writable; choose another --out")


def identity(directory: Path) -> str | None:
    """The identity of the artifact in `directory`, sound or not; None where there is none."""
    try:
        return manifest_digest((directory / MANIFEST_FILE).read_bytes())
    except OSError:
        return None


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """A directory beside `out` that replaces it when the block succeeds and vanishes when not."""
    try:
        stage = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise ModeldError(f"{out.parent} is not writable ({error.strerror})") from None
    try:
        yield stage
        stage.chmod(0o755)
        _replace(stage, out)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def write_artifact(directory: Path, manifest: Manifest, files: Mapping[str, bytes]) -> None:
    """Write all files and, last, the manifest. Raises ModeldError when the disk is full."""
    try:
        (directory / KERNELS_DIRECTORY).mkdir(exist_ok=True)
        for path, content in files.items():
            _write(directory / path, content)
        _write(directory / MANIFEST_FILE, canonical_bytes(manifest))
    except OSError as error:
        raise ModeldError(f"cannot write the artifact in {directory} ({error.strerror})") from None


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _replace(stage: Path, out: Path) -> None:
    if not out.exists():
        stage.rename(out)
        return
    # A directory cannot be replaced in one step; readers that opened the old one keep it.
    old = Path(tempfile.mkdtemp(prefix=f".{out.name}.old.", dir=out.parent))
    out.rename(old / "replaced")
    stage.rename(out)
    shutil.rmtree(old, ignore_errors=True)
