"""Opening an artifact: a read-only directory, listed, hashed and pinned by its manifest.

Every file is opened once, without following links, and what is used is what was hashed. Small
files are read whole; the weights are hashed while they stream (`weights.py`).
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from modeld.errors import ArtifactRefusedError, ModeldError
from modeld.files import cannot_read
from modeld.manifest import (
    KERNELS_DIRECTORY,
    MANIFEST_FILE,
    MAX_MANIFEST_BYTES,
    SIGNATURE_FILE,
    FileEntry,
    FormatVersionError,
    Manifest,
    manifest_digest,
    parse_manifest,
)
from modeld.validation import validate
from modeld.verdict import Reason

CHUNK_BYTES = 256 << 10
# A signature takes 150 bytes; this is room for many signers.
MAX_SIGNATURE_BYTES = 1 << 16


@dataclass(frozen=True)
class Artifact:
    """An opened artifact. `digest` is its identity, `sha256:<hex>` of the manifest file."""

    directory: Path
    manifest: Manifest
    digest: str
    manifest_bytes: bytes

    def entry(self, path: str) -> FileEntry:
        """The manifest's line for `path`. Raises ArtifactRefusedError when it has none."""
        for entry in self.manifest.files:
            if entry.path == path:
                return entry
        raise refused(Reason.MISSING_FILE, f"{path} is not listed in {MANIFEST_FILE}")

    def read(self, path: str) -> bytes:
        """All bytes of a listed file, verified. Raises ArtifactRefusedError."""
        return b"".join(self.stream(path))

    def stream(self, path: str) -> Iterator[bytes]:
        """The bytes of a listed file in chunks of at most CHUNK_BYTES.

        The hash is known only at the end: ArtifactRefusedError is raised after the last chunk
        when it differs, so nothing of the file may be used before the iterator is exhausted.
        """
        entry = self.entry(path)
        digest = hashlib.sha256()
        with _open_plain(self.directory, path) as stream:
            found = os.fstat(stream.fileno()).st_size
            if found != entry.bytes:
                raise refused(
                    Reason.MODIFIED_FILE,
                    f"{path} has {found} bytes, the manifest says {entry.bytes}",
                )
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
                yield chunk
        if digest.hexdigest() != entry.sha256:
            raise refused(
                Reason.MODIFIED_FILE,
                f"{path} has sha256 {digest.hexdigest()[:12]}…, "
                f"the manifest says {entry.sha256[:12]}…",
            )

    def verify_files(self) -> None:
        """Read and hash every file. Raises ArtifactRefusedError for the first that differs."""
        for entry in self.manifest.files:
            for _ in self.stream(entry.path):
                pass


def open_artifact(path: str | os.PathLike[str], pin: str | None = None) -> Artifact:
    """Open the artifact at `path` and check its identity and its list of files.

    `pin` is `sha256:<hex>` as printed by the build. File contents are checked when they are used
    (or all at once by `Artifact.verify_files`). Raises ArtifactRefusedError with the reason.
    """
    directory = Path(path)
    try:
        return _open_artifact(directory, pin)
    except OSError as error:
        raise refused(Reason.UNREADABLE, str(cannot_read(directory, error))) from None


def _open_artifact(directory: Path, pin: str | None) -> Artifact:
    _check_directory(directory)
    with _open_plain(directory, MANIFEST_FILE) as stream:
        content = stream.read(MAX_MANIFEST_BYTES + 1)
    if len(content) > MAX_MANIFEST_BYTES:
        raise refused(
            Reason.MALFORMED, f"{MANIFEST_FILE} is longer than {MAX_MANIFEST_BYTES} bytes"
        )
    digest = manifest_digest(content)
    if pin is not None and pin != digest:
        raise refused(Reason.WRONG_PIN, f"{directory} is {digest}, the pin says {pin}")
    try:
        manifest = parse_manifest(content)
    except FormatVersionError as error:
        raise refused(Reason.NEWER_FORMAT, str(error)) from None
    except ModeldError as error:
        raise refused(Reason.MALFORMED, str(error)) from None
    _check_listing(directory, manifest)
    try:
        validate(manifest)
    except ModeldError as error:
        raise refused(Reason.MALFORMED, str(error)) from None
    return Artifact(directory, manifest, digest, content)


def read_signature(artifact: Artifact) -> bytes | None:
    """The signature file's bytes, or None where the artifact has none."""
    if not (artifact.directory / SIGNATURE_FILE).exists():
        return None
    with _open_plain(artifact.directory, SIGNATURE_FILE) as stream:
        content = stream.read(MAX_SIGNATURE_BYTES + 1)
    if len(content) > MAX_SIGNATURE_BYTES:
        raise refused(Reason.BAD_SIGNATURE, f"{SIGNATURE_FILE} is longer than any signature")
    return content


def refused(reason: Reason, message: str) -> ArtifactRefusedError:
    """The error for an artifact that must not be used."""
    return ArtifactRefusedError(reason, f"artifact refused ({reason}): {message}")


def _shown(name: str) -> str:
    """A file's name as it is, or quoted where it would not stay on one line."""
    return name if name.isprintable() else ascii(name)


def _check_directory(directory: Path) -> None:
    mode = directory.stat().st_mode
    if not stat.S_ISDIR(mode):
        raise refused(Reason.UNREADABLE, f"{directory} is not a directory")
    if mode & stat.S_IWOTH:
        raise refused(
            Reason.UNSAFE_FILE, f"{directory} is writable by everyone; run chmod o-w on it"
        )


def _check_listing(directory: Path, manifest: Manifest) -> None:
    """The directory holds the listed files, the manifest, perhaps a signature, and no more."""
    listed = {entry.path for entry in manifest.files}
    for path in sorted(listed):
        parts = path.split("/")
        inside = len(parts) == 1 or (len(parts) == 2 and parts[0] == KERNELS_DIRECTORY)
        if not inside or parts[-1] in ("", ".", "..") or "\0" in path:
            raise refused(
                Reason.UNSAFE_FILE, f"manifest lists {path!r}, which leaves the directory"
            )
    found = set(_walk(directory))
    if missing := sorted(listed - found):
        raise refused(
            Reason.MISSING_FILE, f"{_shown(missing[0])} is missing ({len(missing)} missing in all)"
        )
    if extra := sorted(found - listed - {MANIFEST_FILE, SIGNATURE_FILE}):
        raise refused(
            Reason.EXTRA_FILE,
            f"{_shown(extra[0])} is not in the manifest ({len(extra)} extra in all)",
        )


def _walk(directory: Path) -> Iterator[str]:
    for entry in sorted(directory.iterdir()):
        if entry.is_symlink():
            raise refused(
                Reason.UNSAFE_FILE, f"{_shown(entry.name)} is a symbolic link; copy the file"
            )
        if entry.is_dir() and entry.name == KERNELS_DIRECTORY:
            yield from (f"{KERNELS_DIRECTORY}/{below.name}" for below in sorted(entry.iterdir()))
        else:
            yield entry.name


def _open_plain(directory: Path, path: str) -> BinaryIO:
    """Open a regular file that has one name only, following no link below `directory`."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        *parents, name = path.split("/")
        for parent in parents:
            below = os.open(parent, flags | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = below
        # O_NONBLOCK: a FIFO planted under this name must not stop us.
        descriptor = os.open(name, flags | os.O_NONBLOCK, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise refused(
                Reason.UNSAFE_FILE, f"{_shown(path)} is a link; copy the file itself"
            ) from None
        if error.errno == errno.ENOENT:
            raise refused(
                Reason.MISSING_FILE, f"{_shown(path)} is missing in {directory}"
            ) from None
        raise
    finally:
        os.close(folder)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise refused(
            Reason.UNSAFE_FILE, f"{_shown(path)} is not a plain file with one name; copy it"
        )
    return os.fdopen(descriptor, "rb")
