"""Writing files so that a reader sees the old content or the new, never a part."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """A file that becomes `path`, synced, when the block ends, and vanishes if it fails.

    Raises OSError as the file system gives it.
    """
    if path.is_dir():  # found out now, not when the work is done
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            # mkstemp makes private files; results are for others to read, so follow the umask.
            os.fchmod(stream.fileno(), 0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_atomic(path: Path, content: bytes) -> None:
    """Write `content` to `path`; see `open_atomic`."""
    with open_atomic(path) as stream:
        stream.write(content)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
