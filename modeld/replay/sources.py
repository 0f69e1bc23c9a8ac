"""Frame sources that need no camera: clips and the procedural road, with the messages around them.

A specification names one:

    ROUTE                a recorded route, NAME or NAME--N, with its messages (see `route`)
    drive.mp4            a video file, with its sidecar (see `sidecar`)
    pictures/            a folder of images in name order, with its sidecar
    road, road:7         the procedural road with a seed; endless in lock-step, and because it is
                         painted more slowly than it is driven, its first second repeated otherwise
    loop:SPEC            the first second of another source, kept in memory and repeated
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from modeld.cameras.nv12 import venus_layout
from modeld.clock import Clock
from modeld.constants import MODEL_RUN_HZ
from modeld.errors import ModeldError
from modeld.replay.device import CAMERAS, device_profile
from modeld.replay.logged import Span
from modeld.replay.logged_source import open_logged
from modeld.replay.pace import Lockstep, Pace, RealTime, ReplayClock
from modeld.replay.reel import RING_SIZE, FrameRing, Moment, Prefetch, Reel, loop
from modeld.replay.resample import seen_part, sidecar_resampler
from modeld.replay.roads import FAST, FINE, open_road, parse_road
from modeld.replay.route import LOG_NAMES, is_route
from modeld.replay.sidecar import find_sidecar, read_sidecar
from modeld.replay.simulation import RecordedDevice, Recording, SimulatedDevice
from modeld.replay.video import count_pictures, read_pictures

# What a specification may be, for messages.
SOURCES = "a route, a video, a folder of images, or road[:SEED]"
_LOG_SUFFIXES = (".zst", ".bz2")
_LOOP = "loop:"
_LOOP_MOMENTS = MODEL_RUN_HZ


def open_source(
    spec: str,
    camera: str | None,
    clock: Clock,
    rate_hz: float | None,
    *,
    sidecar: Path | None = None,
    first: int = 0,
    count: int | None = None,
    ahead: bool = False,
) -> RecordedDevice:
    """Open the source that `spec` names as a device with `camera` ("1928x1208") frames.

    With `camera` None frames have a route's own size, and 1928x1208 otherwise.

    With `rate_hz` None it plays in lock-step: each frame comes as soon as it is asked for, and
    `RecordedDevice.clock` follows the frames. Otherwise frames come at that rate on `clock`,
    whether taken or not, made ahead of their time in a thread; `ahead` asks for that in lock-step
    too. Frames before `first` are skipped, at most `count` are given; a frame's id is its place
    in the recording.

    Raises ModeldError for a source, sidecar or camera that cannot be used; damage later in a file
    is raised when its frame is taken.
    """
    _check_spec(spec, sidecar)
    if is_route(Path(spec)):
        factor = None if rate_hz is None else rate_hz / MODEL_RUN_HZ
        return open_logged(Path(spec), camera, clock, factor, Span(first, count), ahead)
    camera = camera or CAMERAS[0]
    looped = spec.startswith(_LOOP)
    spec = spec.removeprefix(_LOOP)
    seed = parse_road(spec)
    looped |= seed is not None and rate_hz is not None
    # Repeated moments all stay, so none of their buffers may come back.
    buffers = max(RING_SIZE, _LOOP_MOMENTS if looped else 0)
    if seed is not None:
        coarse = FINE if rate_hz is None else FAST
        recording, moments = open_road(seed, camera, coarse, first, buffers)
    else:
        span = slice(first, None if count is None or looped else first + count)
        recording, moments = _open_clip(Path(spec), camera, sidecar, span, buffers)
    if looped:
        moments = loop(moments, _LOOP_MOMENTS, ready=seed is not None)
    if looped or seed is not None:
        moments = islice(moments, count)
        recording = replace(recording, total=count)
    close: Callable[[], None] = _nothing
    if ahead or rate_hz is not None:
        prefetch = Prefetch(moments)
        moments, close = prefetch, prefetch.close
    pace: Pace
    if rate_hz is None:
        clock = ReplayClock(clock)
        pace = Lockstep(clock)
    else:
        pace = RealTime(clock, rate_hz, first)
    return SimulatedDevice(recording, Reel(moments, first), pace, clock, close, first)


def _check_clip(clip: Path) -> None:
    """Raise ModeldError for what holds no pictures, before anybody looks for its sidecar."""
    if not clip.exists():
        raise ModeldError(f"{clip} does not exist; give {SOURCES}")
    if clip.is_file() and (clip.suffix in _LOG_SUFFIXES or clip.name in LOG_NAMES):
        raise ModeldError(
            f"{clip} is a log, and a log has no pictures; give the route's directory NAME--N, "
            "which has its videos too"
        )
    if count_pictures(clip) == 0:
        raise ModeldError(f"{clip} holds no image and no segment NAME--N; give {SOURCES}")


def _check_spec(spec: str, sidecar: Path | None) -> None:
    inner = spec.removeprefix(_LOOP)
    if not inner:
        raise ModeldError(f"{spec!r} names no source; give {SOURCES}")
    if sidecar is None:
        return
    if is_route(Path(spec)):
        raise ModeldError(f"{spec} is a route, whose log tells of its camera; drop --sidecar")
    if parse_road(inner) is not None:
        raise ModeldError(f"{spec} is painted for its camera; drop --sidecar, which is for clips")


def _nothing() -> None:
    """Lock-step holds nothing that must be released."""


def _open_clip(
    clip: Path, camera: str, given: Path | None, span: slice, buffers: int
) -> tuple[Recording, Iterator[Moment]]:
    _check_clip(clip)
    sidecar = read_sidecar(find_sidecar(clip, given))
    profile = device_profile(camera, sidecar.rpy, sidecar.camera_height, sidecar.speed)
    narrow = profile.cameras.narrow
    layout = venus_layout(narrow.width, narrow.height)
    resampler = sidecar_resampler(sidecar, narrow, layout)
    pictures = read_pictures(clip, sidecar.colour_matrix, sidecar.colour_range)
    total = count_pictures(clip)
    recording = Recording(
        profile,
        layout,
        two_cameras=False,
        visible=seen_part(sidecar, narrow),
        total=None if total is None else len(range(total)[span]),
        title=clip.name,
    )
    ring = FrameRing(buffers, layout.bytes)
    wanted = islice(pictures, span.start, span.stop)
    return recording, (Moment(resampler(picture, ring.take())) for picture in wanted)
