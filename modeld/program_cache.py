"""A private cache of device binaries, so that a warm start does not compile.

Binaries are no part of the artifact: drivers put changing bytes into them. An entry belongs to
exactly one (source, options, device, driver, platform, format); anything unreadable, stale or
damaged is a miss and is written anew.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from modeld.files import write_atomic
from modeld.opencl import DeviceInfo

MAGIC = b"modeld-program-1\n"


@dataclass
class ProgramCache:
    """Device binaries below `directory`; without a directory nothing is kept. Counts its luck."""

    directory: Path | None
    hits: int = 0
    misses: int = 0
    failures: list[str] = field(default_factory=list)

    def load(self, key: str) -> bytes | None:
        """The binary stored under `key`, or None (counted as a miss)."""
        binary = None if self.directory is None else _read_entry(self.directory / key)
        if binary is None:
            self.misses += 1
        else:
            self.hits += 1
        return binary

    def store(self, key: str, binary: bytes) -> None:
        """Keep `binary` under `key`. A full or read-only disk costs the cache, not the start."""
        if self.directory is None:
            return
        entry = MAGIC + hashlib.sha256(binary).digest() + binary
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(self.directory / key, entry)
        except OSError as error:
            self.failures.append(f"{self.directory}: {error.strerror}")


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
        content = path.read_bytes()
    except OSError:
        return None
    start = len(MAGIC) + 32
    digest, binary = content[len(MAGIC) : start], content[start:]
    if not content.startswith(MAGIC) or hashlib.sha256(binary).digest() != digest:
        return None
    return binary
