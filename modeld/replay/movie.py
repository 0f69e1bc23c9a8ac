"""Writing videos; a file appears only when it is complete."""

import os
import tempfile
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self

import av

from modeld.errors import ModeldError
from modeld.replay.video import Bytes

# The first one that FFmpeg was built with is used; H.264 plays everywhere.
_ENCODERS = ("libx264", "libopenh264", "mpeg4")


class MovieWriter:
    """An MP4 of RGB pictures (height, width, 3), all of the first one's size.

    Odd rows and columns are cut off, as 4:2:0 wants. Leaving by an exception leaves no file.
    """

    def __init__(self, path: Path, rate_hz: int) -> None:
        if not path.parent.is_dir():
            raise ModeldError(f"{path.parent} is no folder; create it to write {path.name} there")
        if path.is_dir():
            raise ModeldError(f"{path} is a folder; name the MP4 file to write in it")
        self._path = path
        self._rate = Fraction(rate_hz)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".mp4", dir=path.parent)
        os.close(descriptor)
        self._temporary = Path(name)
        self._container = av.open(name, "w", format="mp4")
        self._stream: av.VideoStream | None = None

    def add(self, rgb: Bytes) -> None:
        """Encode one more picture."""
        height, width = rgb.shape[0] & ~1, rgb.shape[1] & ~1
        if self._stream is None:
            self._stream = self._open(width, height)
        frame = av.VideoFrame.from_ndarray(rgb[:height, :width], format="rgb24")
        self._container.mux(self._stream.encode(frame))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self._stream is not None:
                self._container.mux(self._stream.encode())
            self._container.close()
            if kind is None and self._stream is not None:
                self._temporary.chmod(0o644)  # mkstemp makes private files
                self._temporary.replace(self._path)
        finally:
            self._temporary.unlink(missing_ok=True)

    def _open(self, width: int, height: int) -> "av.VideoStream":
        for encoder in _ENCODERS:
            if encoder in av.codecs_available:
                stream = self._container.add_stream(encoder, rate=self._rate)
                stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
                if encoder == "libx264":
                    stream.options = {"crf": "20", "preset": "veryfast"}
                return stream
        raise ModeldError(f"FFmpeg here has none of the encoders {', '.join(_ENCODERS)}")
