"""Writing videos; a file appears only when it is complete."""

from contextlib import ExitStack, suppress
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import av

from modeld.errors import ModeldError
from modeld.files import check_writable, ending_of, open_atomic, translated_writing
from modeld.replay.video import Bytes

MOVIE_ENDINGS = (".mp4",)
# The first one that FFmpeg was built with is used; H.264 plays everywhere.
_ENCODERS = ("libx264", "libopenh264", "mpeg4")


class MovieWriter:
    """An MP4 of RGB pictures (height, width, 3), all of the first one's size.

    Odd rows and columns are cut off, as 4:2:0 wants. To be used in a `with` block; the file
    appears, whole, when the block ends without an error, and not at all without a picture.
    Raises ModeldError where it cannot be written, or its name does not end like an MP4's.
    """

    def __init__(self, path: Path, rate_hz: int) -> None:
        ending_of(path, "video", MOVIE_ENDINGS)
        check_writable(path)
        self._path = path
        self._rate = Fraction(rate_hz)
        self._stack = ExitStack()
        # Opened with the first picture, whose size is the movie's.
        self._container: Any = None
        self._stream: Any = None

    def add(self, rgb: Bytes) -> None:
        """Encode one more picture."""
        height, width = rgb.shape[0] & ~1, rgb.shape[1] & ~1
        frame = av.VideoFrame.from_ndarray(rgb[:height, :width], format="rgb24")
        with translated_writing(self._path):
            if self._container is None:
                self._open(width, height)
            self._container.mux(self._stream.encode(frame))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with translated_writing(self._path):
            self._stack.__exit__(kind, error, trace)

    def _open(self, width: int, height: int) -> None:
        encoder = next((name for name in _ENCODERS if name in av.codecs_available), None)
        if encoder is None:
            raise ModeldError(
                f"FFmpeg here has none of the encoders {', '.join(_ENCODERS)}; install the av "
                "package from PyPI, which has them"
            )
        file = self._stack.enter_context(open_atomic(self._path))
        self._container = av.open(file, "w", format="mp4")
        self._stream = stream = self._container.add_stream(encoder, rate=self._rate)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        if encoder == "libx264":
            stream.options = {"crf": "20", "preset": "veryfast"}
        self._stack.push(self._finish)

    def _finish(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the movie before its file is, which is given up when the block failed."""
        if kind is None:
            self._container.mux(self._stream.encode())
            self._container.close()
            return
        with suppress(OSError, av.error.FFmpegError):
            self._container.close()
