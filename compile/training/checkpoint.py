"""Snapshots on disk: one directory each, whole or not there.

A directory holds `parameters.safetensors` (values by parameter name), `optimizer.safetensors`
(state by `number.slot.name`) and `manifest.json`, which has the description, the hashes of the
two files and a hash of itself. It is written under another name, synced and renamed, and never
written to again: a reader that has mapped its files keeps what it read. See docs/training.md.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from compile.training.record import FORMAT_VERSION, RunRecord
from compile.training.records import from_document, to_document
from compile.training.snapshot import Snapshot
from compile.training.stored import StoredTensor, dump, parse
from modeld.errors import ModeldError
from modeld.files import translated_writing

FORMAT = "modeld-training-checkpoint"
MANIFEST, PARAMETERS, OPTIMIZER = "manifest.json", "parameters.safetensors", "optimizer.safetensors"
_NAME = re.compile(r"step-(\d{8,})")
_PARTIAL, _OLD = ".partial-", ".old-"

K = TypeVar("K")
_Key: TypeAlias = tuple[K, str, tuple[int, ...]]


class CheckpointStore:
    """The checkpoints of one run in a directory, of which the last `keep` stay."""

    def __init__(self, directory: Path, keep: int = 3) -> None:
        if keep < 1:
            raise ModeldError(f"keeping {keep} checkpoints would keep none; keep at least 1")
        self.directory = directory
        self._keep = keep

    def paths(self) -> list[Path]:
        """The checkpoints by step, oldest first."""
        if not self.directory.is_dir():
            return []
        named = ((_NAME.fullmatch(path.name), path) for path in self.directory.iterdir())
        return [path for _, path in sorted((int(m[1]), path) for m, path in named if m)]

    def latest(self) -> Path | None:
        """The checkpoint with the most steps; None when there is none."""
        return next(reversed(self.paths()), None)

    def save(self, snapshot: Snapshot) -> Path:
        """Write a checkpoint, then delete those beyond the last ones; returns its directory.

        Raises ModeldError when the step has a checkpoint already, another process is saving here,
        or the disk refuses.
        """
        final = self.directory / f"step-{snapshot.record.step:08d}"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with locked(self.directory):
                self._sweep()
                if final.exists():
                    raise ModeldError(f"{final} exists; checkpoints are never overwritten")
                partial = self.directory / f"{_PARTIAL}{final.name}"
                _write_directory(partial, _files(snapshot))
                partial.rename(final)
                _sync_directory(self.directory)
                for path in self.paths()[: -self._keep]:
                    self._delete(path)
        except OSError as error:
            raise ModeldError(
                f"{final} cannot be written ({error.strerror}); the checkpoints before are whole"
            ) from None
        return final

    def _delete(self, path: Path) -> None:
        # Under a name that is no checkpoint's, so that a half deleted one is not taken for one.
        old = path.with_name(f"{_OLD}{path.name}")
        path.rename(old)
        shutil.rmtree(old)

    def _sweep(self) -> None:
        """Delete what saves and deletions that were killed have left."""
        for path in self.directory.iterdir():
            if path.name.startswith((_PARTIAL, _OLD)):
                shutil.rmtree(path)


def load(path: Path) -> Snapshot:
    """The snapshot in a checkpoint directory, verified against the hashes in its manifest.

    Raises ModeldError for missing, changed or malformed files and for other format versions.
    """
    content = _read(path / MANIFEST)
    document = _verified_manifest(content, path / MANIFEST)
    files = document.pop("files")
    record = from_document(RunRecord, document, str(path / MANIFEST))
    tensors = {}
    for name in (PARAMETERS, OPTIMIZER):
        content = _read(path / name)
        found, wanted = hashlib.sha256(content).hexdigest(), str(files.get(name))
        if found != wanted:
            raise ModeldError(
                f"{path / name} has sha256 {found[:12]}, the manifest says {wanted[:12]}; "
                "take another checkpoint"
            )
        tensors[name] = parse(content, str(path / name))
    return Snapshot(
        record,
        _expected(_parameter_keys(record), tensors[PARAMETERS], path),
        _expected(_state_keys(record), tensors[OPTIMIZER], path),
    )


def _files(snapshot: Snapshot) -> dict[str, bytes]:
    state = {f"{n}.{slot}.{name}": t for (n, slot, name), t in snapshot.state.items()}
    files = {PARAMETERS: dump(snapshot.parameters), OPTIMIZER: dump(state)}
    document = to_document(snapshot.record)
    document["format"] = FORMAT
    document["files"] = {name: hashlib.sha256(c).hexdigest() for name, c in files.items()}
    document["digest"] = _digest(document)
    return files | {MANIFEST: json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"}


def _digest(document: Mapping[str, Any]) -> str:
    """sha256 of the manifest without its digest, in one spelling."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _verified_manifest(content: bytes, path: Path) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ModeldError(f"{path} is not JSON ({error}); take another checkpoint") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModeldError(f"{path} is no checkpoint's manifest; name a checkpoint directory")
    found = document.get("format_version")
    # Before all else, so that a newer format is called newer and not damaged.
    if found != FORMAT_VERSION:
        raise ModeldError(
            f"{path} has format version {found!r}, this program reads {FORMAT_VERSION}; "
            "use the program that belongs to it"
        )
    if document.pop("digest", None) != _digest(document) or not isinstance(
        document.get("files"), dict
    ):
        raise ModeldError(f"{path} was changed after it was written; take another checkpoint")
    del document["format"]
    return document


def _parameter_keys(record: RunRecord) -> dict[str, _Key[str]]:
    """Name in the file → key in the snapshot, element type, shape."""
    return {p.name: (p.name, p.dtype, p.shape) for p in record.parameters if p.same_as is None}


def _state_keys(record: RunRecord) -> dict[str, _Key[tuple[int, str, str]]]:
    """Name in the file → key in the snapshot, element type, shape."""
    shapes = {p.name: p.shape for p in record.parameters}
    return {
        f"{number}.{slot}.{name}": ((number, slot, name), optimizer.state_dtype, shapes[name])
        for number, optimizer in enumerate(record.optimizers)
        for slot in optimizer.slots
        for name in optimizer.parameters
    }


def _expected(
    keys: Mapping[str, _Key[K]], tensors: Mapping[str, StoredTensor], path: Path
) -> dict[K, StoredTensor]:
    """The tensors by key; ModeldError unless they are those of the description."""
    held = {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
    if held != {name: (dtype, shape) for name, (_, dtype, shape) in keys.items()}:
        raise ModeldError(
            f"{path} holds other tensors than its manifest names; take another checkpoint"
        )
    return {key: tensors[name] for name, (key, _, _) in keys.items()}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModeldError(
            f"{path} cannot be read ({error.strerror}); name a checkpoint directory"
        ) from None


def _write_directory(directory: Path, files: Mapping[str, bytes]) -> None:
    directory.mkdir()
    for name, content in files.items():
        with (directory / name).open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    _sync_directory(directory)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold a directory's lock, which a killed process gives back; ModeldError when it is held."""
    with translated_writing(directory):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ModeldError(f"another process is writing to {directory}; wait for it") from None
    finally:
        os.close(descriptor)
