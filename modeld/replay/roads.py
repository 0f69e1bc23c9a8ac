"""The procedural road as a recording: two cameras, endless, with its truth."""

from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np

from modeld.calibration import Intrinsics
from modeld.cameras.nv12 import venus_layout
from modeld.constants import DT_MODEL, X_IDXS
from modeld.errors import ModeldError
from modeld.replay.device import DeviceProfile, device_profile
from modeld.replay.reel import FrameRing, Moment
from modeld.replay.road.drive import Drive
from modeld.replay.road.render import Painter, one
from modeld.replay.road.truth import Truth, truth_of
from modeld.replay.scene import Floats
from modeld.replay.simulation import Recording
from modeld.replay.video import Bytes

# A device of the usual kind, mounted as such devices are.
_RPY, _HEIGHT = (0.0, 0.02, 0.0), 1.22
# Luma pixels that share a value, each way. Painting costs 3 microseconds a value: the finer one is
# for looking at and for the network, the faster one for filling a second's frames of two cameras.
FINE, FAST = 3, 16


def parse_road(spec: str) -> int | None:
    """The seed of `road` (0) or `road:7`, None when `spec` names something else.

    Raises ModeldError for a seed that is no whole number.
    """
    kind, _, seed = spec.partition(":")
    if kind != "road":
        return None
    if seed and not seed.isdecimal():
        raise ModeldError(f"{spec} has the seed {seed!r}; give a whole number, as in road:7")
    return int(seed or 0)


def open_road(
    seed: int, camera: str, coarse: int, first: int, buffers: int
) -> tuple[Recording, Iterator[Moment]]:
    """The road of that seed from moment `first` on, in a ring of `buffers` frames a camera.

    Raises ModeldError for an unknown camera.
    """
    drive = Drive(seed, 1)
    profile = road_profile(drive, camera)
    narrow, wide = profile.cameras.narrow, profile.cameras.wide
    recording = Recording(
        profile,
        venus_layout(narrow.width, narrow.height),
        two_cameras=wide is not None,
        visible=(0, 0, narrow.width, narrow.height),
        title=f"road:{seed}",
    )
    cameras = [narrow] if wide is None else [narrow, wide]
    return recording, road_moments(drive, cameras, coarse, first, buffers)


def road_profile(drive: Drive, camera: str) -> DeviceProfile:
    """The device that drives there; raises ModeldError for an unknown camera."""
    return device_profile(camera, _RPY, float(drive.scene["height"][0]), float(drive.speed[0]))


def road_moments(
    drive: Drive, cameras: Sequence[Intrinsics], coarse: int, first: int, buffers: int
) -> Iterator[Moment]:
    """What `cameras` (narrow, or narrow and wide, of one size) see of a drive, without end."""
    layout = venus_layout(cameras[0].width, cameras[0].height)
    painters = [Painter(camera, _RPY, layout, coarse) for camera in cameras]
    ring = FrameRing(buffers * len(cameras), layout.bytes)
    for number in count():
        drive.step(DT_MODEL)
        if number < first:
            continue
        moment = drive.moment()
        scene = one(moment.scene, 0)
        frames = [_copied(paint(scene), ring.take()) for paint in painters]
        yield Moment(
            frames[0],
            frames[1] if len(frames) > 1 else None,
            speed=float(moment.speed[0]),
            truth=true_lines(truth_of(moment)),
        )


def _copied(painted: Bytes, buffer: Bytes) -> Bytes:
    buffer[:] = painted
    return buffer


def true_lines(truth: Truth) -> tuple[Floats, ...]:
    """The painted lane lines of the first drive as points (n, 3) on the road."""
    known = truth.known[0]
    lines = [
        np.column_stack([X_IDXS[known], line[known]])
        for line, painted in zip(truth.lane_lines[0], truth.painted[0], strict=True)
        if painted
    ]
    return tuple(line.astype(np.float64) for line in lines)
