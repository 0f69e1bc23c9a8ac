"""Which server, and where its socket and rings are."""

import re
from dataclasses import dataclass
from pathlib import Path

from modeld.errors import ModeldError

# Stream numbers; what a stream is called depends on the age of the software.
NARROW_ROAD = 0
CABIN = 1
WIDE_ROAD = 2
STREAM_NAMES = {NARROW_ROAD: "narrow road", CABIN: "cabin", WIDE_ROAD: "wide road", 3: "map"}

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# sun_path of a Unix socket address, with its final zero.
_MAX_SOCKET_PATH = 107


@dataclass(frozen=True, slots=True)
class VisionIpcConfig:
    """A camera server's name and surroundings.

    `prefix` is what openpilot's programs take from OPENPILOT_PREFIX; with it, several servers
    of one name live side by side. Raises ModeldError for names that would lead elsewhere.
    """

    server: str = "camerad"
    prefix: str = ""
    socket_folder: Path = Path("/tmp")  # noqa: S108 - where camerad's socket is
    ring_folder: Path = Path("/dev/shm")  # noqa: S108 - where msgq's rings are

    def __post_init__(self) -> None:
        for what, name in (("server name", self.server), ("prefix", self.prefix)):
            if what == "prefix" and not name:
                continue
            if not _NAME.fullmatch(name) or name in (".", ".."):
                raise ModeldError(
                    f"{what} {name!r} cannot be part of a file name: use 1 to 64 letters, "
                    "digits, '_', '-' or '.'"
                )
        if len(str(self.socket_path)) > _MAX_SOCKET_PATH:
            raise ModeldError(
                f"socket path {self.socket_path} is longer than {_MAX_SOCKET_PATH} characters: "
                "use a shorter server name or prefix"
            )

    @property
    def socket_path(self) -> Path:
        """The server's SOCK_SEQPACKET socket."""
        before = f"{self.prefix}_" if self.prefix else ""
        return self.socket_folder / f"{before}visionipc_{self.server}"

    def ring_path(self, stream: int) -> Path:
        """The ring that announces the pictures of a stream."""
        return self.ring_folder / f"msgq_{self._folder}visionipc_{self.server}_{stream}"

    def older_ring_path(self, stream: int) -> Path:
        """The ring's name in msgq before December 2025."""
        return self.ring_folder / f"{self._folder}visionipc_{self.server}_{stream}"

    @property
    def _folder(self) -> str:
        return f"{self.prefix}/" if self.prefix else ""
