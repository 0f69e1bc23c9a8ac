"""Writing files so that a reader sees the old content or the new, never a part."""

import errno
import os
import secrets
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from modeld.errors import ModeldError

# Answers of file systems, and of systems without /proc, that know no files without names.
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)


# Far above any key, pin, configuration, budget or sidecar.
MAX_SMALL_BYTES = 1 << 20

# What a user can do about a file that cannot be opened.
_REMEDIES = {
    errno.ENOENT: "check the name and its folder",
    errno.ENOTDIR: "check the name and its folder",
    errno.EISDIR: "name a file",
    errno.EACCES: "check its permissions and its folder's",
    errno.EPERM: "check its permissions and its folder's",
    errno.EROFS: "name a place on another disk",
    errno.ENOSPC: "make room, or name a place on another disk",
    errno.EDQUOT: "make room, or name a place on another disk",
}


def cannot_read(path: Path | str, error: OSError) -> ModeldError:
    """The failure to read a file as users see it: which one, why, what to do."""
    return ModeldError(_failure(path, "read", error))


def check_regular(path: Path) -> None:
    """Raise ModeldError for what is there but no file: a device or a pipe may never end."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ModeldError(f"{path} is no regular file; name another file")


def read_small(path: Path, what: str = "", most: int = MAX_SMALL_BYTES) -> str:
    """The text of a file as people write them; `what` names its kind in errors.

    Raises ModeldError where it cannot be read or has more than `most` bytes, and
    UnicodeDecodeError where it is no UTF-8.
    """
    name = f"{what} {path}".lstrip()
    try:
        with path.open("rb") as stream:
            content = stream.read(most + 1)
            size = os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise cannot_read(name, error) from None
    if len(content) > most:
        found = size if size > most else f"more than {most}"  # a pipe or a device tells no size
        raise ModeldError(f"{name} has {found} bytes, expected at most {most}; name another file")
    return content.decode()


def cannot_write(path: Path | str, error: OSError) -> ModeldError:
    """The failure to write a file as users see it: which one, why, what to do."""
    return ModeldError(_failure(path, "written", error))


def check_writable(*paths: Path) -> None:
    """Raise ModeldError, before any work is done, when one of these could not be written after."""
    for path in paths:
        with translated_writing(path):
            descriptor, _, discard = _open_temporary(path)
            os.close(descriptor)
            discard()


def ending_of(path: Path, what: str, known: Collection[str]) -> str:
    """The ending of a name, in lower case, as one of those `known` for `what`; "" is none.

    Raises ModeldError where it is another one.
    """
    ending = path.suffix.lower()
    if ending not in known:
        choice = " or ".join(one or "none" for one in known)
        raise ModeldError(f"{path} has no ending of a {what}; give it {choice}")
    return ending


def make_folder(path: Path) -> None:
    """Make `path`, and the folders above it, unless it is there. Raises ModeldError."""
    with translated_writing(path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def translated_writing(path: Path) -> Iterator[None]:
    """Turns OSError, in a block that does nothing but write to `path`, into ModeldError."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from None


@contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """A file that becomes `path`, synced, when the block ends, and vanishes if it fails.

    Until then it has no name, so that nothing is left even of a process that is killed. Where
    the file system knows no such files (NFS, FAT), it has a hidden one beside `path`.
    Raises OSError as the file system gives it.
    """
    descriptor, publish, discard = _open_temporary(path)
    try:
        with os.fdopen(descriptor, "w+b") as stream:
            yield stream
            stream.flush()
            # Temporary files are private; results are for others to read, so follow the umask.
            os.fchmod(stream.fileno(), 0o666 & ~_umask())
            os.fsync(stream.fileno())
            publish()
    except BaseException:
        discard()
        raise


def write_atomic(path: Path, content: bytes) -> None:
    """Write `content` to `path`; see `open_atomic`."""
    with open_atomic(path) as stream:
        stream.write(content)


def write_result(path: Path, content: bytes) -> None:
    """Write what a user asked for to `path`; see `open_atomic`. Raises ModeldError."""
    with translated_writing(path):
        write_atomic(path, content)


def _failure(path: Path | str, done: str, error: OSError) -> str:
    remedy = _REMEDIES.get(error.errno or 0, "name another file")
    return f"{path} cannot be {done} ({error.strerror or error}); {remedy}"


_Opened = tuple[int, Callable[[], object], Callable[[], object]]


def _open_temporary(path: Path) -> _Opened:
    """A descriptor, and what gives it the name `path` and what gives it up."""
    if path.is_dir():  # found out now, not when the work is done
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    # Root could put a file in the place of /dev/null, or of the link /dev/stdout.
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise FileExistsError(errno.EEXIST, "it is no regular file", str(path))
    return _nameless(path) or _hidden(path)


def _nameless(path: Path) -> _Opened | None:
    """As `_open_temporary`, with a file that has no name yet; None where that is not possible."""
    try:
        descriptor = os.open(path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in _NO_NAMELESS and path.parent.is_dir():
            return None
        raise OSError(error.errno, error.strerror, str(path)) from None
    if not Path(f"/proc/self/fd/{descriptor}").exists():
        os.close(descriptor)
        return None
    return descriptor, lambda: _name(descriptor, path), lambda: None


def _name(descriptor: int, path: Path) -> None:
    # A link cannot replace a file, so the name is one of its own for a moment.
    beside = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Only with a folder does Python follow the link that /proc is.
        os.link(f"/proc/self/fd/{descriptor}", beside, src_dir_fd=folder, follow_symlinks=True)
        try:
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    finally:
        os.close(folder)


def _hidden(path: Path) -> _Opened:
    """As `_open_temporary`, with a hidden name."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    return descriptor, lambda: temporary.replace(path), lambda: temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
