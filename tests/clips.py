"""Small clips with known colours, made on the spot."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

# libavutil's numbers: colour space 1 is BT.709, 5 is BT.601; range 1 is limited, 2 is full.
Planes = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]


def write_clip(
    path: Path, pictures: list[Planes], colorspace: int = 5, color_range: int = 1
) -> Path:
    """Losslessly (FFV1) encode planar 4:2:0 pictures with the given tags."""
    height, width = pictures[0][0].shape
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=Fraction(20))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.colorspace = colorspace
        stream.codec_context.color_range = color_range
        for planes in pictures:
            stacked = np.concatenate([plane.ravel() for plane in planes])
            frame = av.VideoFrame.from_ndarray(
                stacked.reshape(height * 3 // 2, width), format="yuv420p"
            )
            frame.colorspace, frame.color_range = colorspace, color_range
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def flat_planes(colour: tuple[int, int, int], size: tuple[int, int] = (64, 48)) -> Planes:
    """One Y, U, V everywhere."""
    width, height = size
    luma = np.full((height, width), colour[0], np.uint8)
    u, v = (np.full((height // 2, width // 2), c, np.uint8) for c in colour[1:])
    return luma, u, v


def write_grey_clip(
    folder: Path, lumas: list[int], size: tuple[int, int] = (64, 48), name: str = "clip"
) -> Path:
    """A clip of flat grey pictures, one luma value each, with its sidecar."""
    pictures = [flat_planes((luma, 128, 128), size) for luma in lumas]
    (folder / f"{name}.toml").write_text(
        f"[camera]\nsize = [{size[0]}, {size[1]}]\nfocal_length = 50.0\n"
        "[mount]\nrpy = [0.0, 0.01, -0.02]\nheight = 1.3\n[drive]\nspeed = 15.0\n"
    )
    return write_clip(folder / f"{name}.avi", pictures)
