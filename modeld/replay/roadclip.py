"""A clip of the procedural road with its sidecar, for those who have no clip of their own."""

from collections.abc import Callable
from pathlib import Path

from modeld.calibration import Intrinsics
from modeld.cameras.frame import Frame
from modeld.cameras.nv12 import packed_layout
from modeld.constants import DT_MODEL, MODEL_RUN_HZ
from modeld.files import write_result
from modeld.replay.movie import MovieWriter
from modeld.replay.overlay import frame_to_rgb
from modeld.replay.road.drive import Drive
from modeld.replay.road.render import Painter, one
from modeld.replay.roads import road_profile

_DEVICE_CAMERA = "1344x760"
# A third of that camera in each direction: painted in a fraction of the time, fine enough for
# the network, which looks at 512x256 pixels.
_CAMERA = Intrinsics(448, 254, 380.5)


def paint_road_clip(
    folder: Path, seed: int, frames: int, on_frame: Callable[[int], None] = lambda done: None
) -> Path:
    """The clip `road-SEED.mp4` in `folder`, painted unless it and its sidecar are there.

    Raises ModeldError when the folder cannot be written.
    """
    clip = folder / f"road-{seed}.mp4"
    sidecar = clip.with_suffix(".toml")
    if clip.exists() and sidecar.exists():
        return clip
    drive = Drive(seed, 1)
    profile = road_profile(drive, _DEVICE_CAMERA)
    layout = packed_layout(_CAMERA.width, _CAMERA.height)
    painter = Painter(_CAMERA, profile.rpy, layout)
    with MovieWriter(clip, MODEL_RUN_HZ) as movie:
        for done in range(frames):
            drive.step(DT_MODEL)
            picture = painter(one(drive.moment().scene, 0))
            movie.add(frame_to_rgb(Frame(picture, layout, done, 0, 0)))
            on_frame(done + 1)
    text = (
        f"# The procedural road, seed {seed}.\n"
        f"[camera]\nsize = [{_CAMERA.width}, {_CAMERA.height}]\nfocal_length = {_CAMERA.focal}\n"
        f"[mount]\nrpy = {list(profile.rpy)}\nheight = {profile.height}\n"
        f"[drive]\nspeed = {profile.speed}\n"
    )
    write_result(sidecar, text.encode())
    return clip
