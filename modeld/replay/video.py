"""Decoding video files and image folders into pictures in the camera's own colours.

Device cameras, and the converters of simulators, write NV12 in BT.601 with limited range
(luma 16 to 235). Clips come in any matrix and range, tagged or not; each picture is converted,
so that grey is the same grey to the network whatever the file was.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from modeld.errors import ModeldError

if TYPE_CHECKING:  # imported where decoding begins: the painted road needs no PyAV
    import av

Bytes = npt.NDArray[np.uint8]

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")

# PyAV's names.
_MATRICES = {"bt601": "ITU601", "bt709": "ITU709"}
_RANGES = {"limited": "MPEG", "full": "JPEG"}
# libavutil's AVColorSpace: 1 is BT.709; 5 and 6 (PAL, NTSC) are BT.601; 2 is "unspecified".
_TAGGED_MATRICES = {1: "ITU709", 5: "ITU601", 6: "ITU601"}
_FULL_RANGE = 2  # its AVColorRange
# Players take untagged material from this height on for BT.709 (EBU and ITU practice for HD).
_HD_HEIGHT = 720


@dataclass(frozen=True, slots=True)
class Picture:
    """Limited-range BT.601 picture: luma (h, w), chroma (h / 2, w / 2, 2) as U, V; uint8."""

    luma: Bytes
    chroma: Bytes

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, both even."""
        return self.luma.shape[1], self.luma.shape[0]


def read_pictures(
    path: Path, matrix: str | None = None, colour_range: str | None = None
) -> Iterator[Picture]:
    """The pictures of a video file or of a folder's images, in order.

    `matrix` ("bt601", "bt709") and `colour_range` ("limited", "full") override the file's tags.
    Raises ModeldError naming the file for anything that cannot be decoded, also midway.
    """
    if path.is_dir():
        images = sorted(p for p in path.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES)
        if not images:
            raise ModeldError(
                f"{path} holds no images ({', '.join(IMAGE_SUFFIXES)}); name the folder that does"
            )
        for image in images:
            yield from _read_file(image, matrix, colour_range)
    elif path.is_file():
        yield from _read_file(path, matrix, colour_range)
    else:
        raise ModeldError(f"{path} is no file and no folder; give a video or a folder of images")


def count_pictures(path: Path) -> int | None:
    """How many pictures `read_pictures` will give, or None where the file does not say."""
    if path.is_dir():
        return sum(p.suffix.lower() in IMAGE_SUFFIXES for p in path.iterdir())
    with _open(path) as container:
        return container.streams.video[0].frames or None


def _read_file(path: Path, matrix: str | None, colour_range: str | None) -> Iterator[Picture]:
    import av

    count = 0
    with _open(path) as container:
        # Concealed damage would reach the network as a grey smear; better to stop and say so.
        container.streams.video[0].codec_context.options = {"err_detect": "+crccheck+explode"}
        try:
            for frame in container.decode(video=0):
                yield _picture(frame, matrix, colour_range)
                count += 1
        except av.error.FFmpegError as error:
            raise ModeldError(
                f"{path} is broken after picture {count} ({error.strerror}); "
                "encode it again, or replay only the pictures before"
            ) from None
    if count == 0:
        raise ModeldError(f"{path} holds no pictures; give another video")


def _open(path: Path) -> "av.container.InputContainer":
    import av

    try:
        container = av.open(str(path))
    except (av.error.FFmpegError, OSError) as error:
        raise ModeldError(
            f"{path} is no video that FFmpeg can open ({error.strerror}); give another file"
        ) from None
    if not container.streams.video:
        container.close()
        raise ModeldError(f"{path} has no video stream; give another file")
    return container


def _picture(frame: "av.VideoFrame", matrix: str | None, colour_range: str | None) -> Picture:
    source_range = _RANGES[colour_range] if colour_range else _tagged_range(frame)
    converted = frame.reformat(
        format="nv12",
        src_colorspace=_MATRICES[matrix] if matrix else _tagged_matrix(frame),
        dst_colorspace="ITU601",
        src_color_range=source_range,
        dst_color_range="MPEG",
    )
    width, height = frame.width & ~1, frame.height & ~1
    luma, chroma = (
        np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
        for plane in converted.planes
    )
    return Picture(
        luma[:height, :width].copy(),
        chroma[: height // 2, :width].reshape(height // 2, width // 2, 2).copy(),
    )


def _tagged_matrix(frame: "av.VideoFrame") -> str:
    if frame.format.is_rgb:
        return "ITU601"  # RGB has no matrix; this one is what it is converted by
    untagged = "ITU709" if frame.height >= _HD_HEIGHT else "ITU601"
    return _TAGGED_MATRICES.get(int(frame.colorspace), untagged)


def _tagged_range(frame: "av.VideoFrame") -> str:
    # The yuvj formats are full range by name; JPEG pictures come in them.
    full = frame.format.is_rgb or frame.format.name.startswith("yuvj")
    return "JPEG" if full or int(frame.color_range) == _FULL_RANGE else "MPEG"
