"""A private cache of device binaries, so that a warm start does not compile.

Binaries are no part of the artifact: drivers put changing bytes into them. An entry belongs to
exactly one (source, options, device, driver, platform, format); anything unreadable, stale or
damaged is a miss and is written anew.
"""

import fcntl
import hashlib
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from modeld.files import open_atomic
from modeld.opencl import DeviceInfo

MAGIC = b"modeld-program-1\n"
# Binaries of one program are below 10 MB on every driver met.
MAX_ENTRY_BYTES = 256 << 20
# What `open_atomic` calls a key's file before it is complete.
LEFTOVER = re.compile(r"\.[0-9a-f]{64}\.\w+")


@dataclass
class ProgramCache:
    """Device binaries below `directory`; without a directory nothing is kept. Counts its luck."""

    directory: Path | None
    hits: int = 0
    misses: int = 0
    failures: list[str] = field(default_factory=list)
    _checked: bool = False
    _swept: bool = False

    def load(self, key: str) -> bytes | None:
        """The binary stored under `key`, or None (counted as a miss)."""
        directory = self._usable()
        binary = None if directory is None else _read_entry(directory / key)
        if binary is None:
            self.misses += 1
        else:
            self.hits += 1
        return binary

    def store(self, key: str, binary: bytes) -> None:
        """Keep `binary` under `key`. A full or read-only disk costs the cache, not the start."""
        directory = self._usable()
        if directory is None:
            return
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_entry(directory / key, MAGIC + hashlib.sha256(binary).digest() + binary)
            if not self._swept:
                self._swept = True
                _remove_leftovers(directory)
        except OSError as error:
            self._fail(error.strerror or str(error))

    def _usable(self) -> Path | None:
        """The directory, unless others could have put programs of theirs into it."""
        if self.directory is not None and not self._checked:
            self._checked = True
            try:
                status = self.directory.stat()
            except OSError:  # not there yet, or not to be read: then every load is a miss
                return self.directory
            if status.st_mode & stat.S_IWOTH or status.st_uid not in (0, os.geteuid()):
                self._fail("belongs to another user or is writable by everyone; it is not used")
                self.directory = None
        return self.directory

    def _fail(self, why: str) -> None:
        message = f"{self.directory}: {why}"
        if message not in self.failures:
            self.failures.append(message)


def program_key(source: bytes, options: str, device: DeviceInfo) -> str:
    """The name under which a program's binary is kept: a hash of all that it depends on."""
    parts = (MAGIC, source, options, device.platform, device.device, device.driver, device.opencl_c)
    digest = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else part.encode()
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def _read_entry(path: Path) -> bytes | None:
    try:
        # O_NONBLOCK: a FIFO under this name must not stop the start.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(path, flags), "rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_ENTRY_BYTES:
                return None
            content = stream.read(MAX_ENTRY_BYTES)
    except OSError:
        return None
    start = len(MAGIC) + 32
    digest, binary = content[len(MAGIC) : start], content[start:]
    if not content.startswith(MAGIC) or hashlib.sha256(binary).digest() != digest:
        return None
    return binary


def _write_entry(path: Path, entry: bytes) -> None:
    # The folder is ours alone, and what is no file there is in the way.
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.unlink()
    with open_atomic(path) as stream:
        # The lock says that the writer lives; see `_remove_leftovers`.
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.write(entry)


def _remove_leftovers(directory: Path) -> None:
    """Delete temporary files whose writer was killed: those that nobody holds a lock on.

    A writer that is caught between opening and locking, or between closing and renaming, loses
    its entry, which then is a miss at the next start.
    """
    for path in directory.iterdir():
        if not LEFTOVER.fullmatch(path.name) or not path.is_file():
            continue
        with suppress(OSError), path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
