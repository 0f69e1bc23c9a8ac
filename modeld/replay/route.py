"""Routes: what a device recorded of a drive, one directory `NAME--N` for each minute.

A segment holds a log (`rlog` or the thinned `qlog`) and a video per camera. Which picture of which
video a frame became is in the log, too, as encode indices; by them pictures and messages are
brought back into the order in which they happened.
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modeld.errors import ModeldError
from modeld.replay.encoding import CAMERAS, Marks, Pictures, Segment, places, read_marks
from modeld.replay.log import read_records
from modeld.replay.video import Picture

_log = logging.getLogger(__name__)

# In order of preference.
LOG_NAMES = tuple(f"{log}{suffix}" for log in ("rlog", "qlog") for suffix in (".zst", ".bz2", ""))
_SEGMENT = re.compile(r"(?P<route>.+)--(?P<number>\d+)")


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """A message of the log: its bytes and an Event reader, unchecked (see `read_records`)."""

    data: bytes
    event: Any


@dataclass(frozen=True, slots=True)
class LoggedFrame:
    """A frame of the log, standing where its camera announced it."""

    camera: str
    frame_id: int
    timestamp_sof: int
    timestamp_eof: int
    picture: Picture


@dataclass(slots=True)
class RouteCounters:
    """What could not be brought together."""

    # Frames announced whose picture no index names, or which the videos do not have.
    frames_without_picture: int = 0
    # Segment numbers between the first and the last that are not there.
    missing_segments: tuple[int, ...] = ()


class Route:
    """The segments of one drive; see `open_route`."""

    def __init__(self, name: str, segments: tuple[Segment, ...]) -> None:
        self.name = name
        self.segments = segments
        present = {segment.number for segment in segments}
        missing = set(range(min(present), max(present))) - present
        self.counters = RouteCounters(missing_segments=tuple(sorted(missing)))

    @property
    def cameras(self) -> tuple[str, ...]:
        """The cameras with a video in any segment, narrow first."""
        names = {name for segment in self.segments for name in segment.videos}
        return tuple(camera.name for camera in CAMERAS if camera.name in names)

    def play(self) -> Iterator[LoggedMessage | LoggedFrame]:
        """Messages in log order, each frame right after its camera's message.

        A log without that message (a qlog has every twentieth) gives the frame at its encode
        index. Each log is read twice, first for its marks. What is damaged is logged, counted in
        `counters` and left out.
        """
        pictures = Pictures(
            {
                (camera, segment.number): video
                for segment in self.segments
                for camera, (video, _) in segment.videos.items()
            }
        )
        # A frame announced at the end of one minute is encoded at the start of the next.
        before, here = Marks(), self._marks(0)
        for at, segment in enumerate(self.segments):
            after = self._marks(at + 1)
            near = (before, here, after)
            for data, event in read_records(segment.log):
                yield LoggedMessage(data, event)
                for camera, place in places(event, near):
                    picture = pictures.take(camera, place) if place else None
                    if place and picture:
                        yield LoggedFrame(camera, place.frame_id, place.sof, place.eof, picture)
                    else:
                        self.counters.frames_without_picture += 1
            before, here = here, after

    def _marks(self, at: int) -> Marks:
        return read_marks(self.segments[at]) if at < len(self.segments) else Marks()


def is_route(path: Path) -> bool:
    """Whether `path` stands for at least one segment."""
    return bool(_segment_directories(path))


def open_route(path: Path) -> Route:
    """The route at `path`: a segment, the prefix of segments, or a directory of one route.

    Raises ModeldError when there is no segment, none with a log, or none with a video.
    """
    found = _segment_directories(path)
    if not found:
        raise ModeldError(f"{path} has no segments; give a NAME--N directory or what holds them")
    routes = {route for route, _, _ in found}
    if len(routes) > 1:
        raise ModeldError(
            f"{path} holds {len(routes)} routes ({', '.join(sorted(routes)[:3])}); name one"
        )
    segments, without = [], []
    for _, number, directory in sorted(found, key=lambda item: item[1]):
        segment = _open_segment(number, directory)
        if segment is None:
            without.append(directory)
        else:
            segments.append(segment)
    if not segments:
        raise ModeldError(
            f"{path} has no rlog or qlog; put it beside the pictures, or replay a video of them"
        )
    if not any(segment.videos for segment in segments):
        raise ModeldError(
            f"{path} has a log but no frames; put its fcamera.hevc, ecamera.hevc or qcamera.ts "
            "beside it"
        )
    for directory in without:
        _log.warning("%s has no rlog or qlog; its pictures are left out", directory)
    return Route(routes.pop(), tuple(segments))


def _segment_directories(path: Path) -> list[tuple[str, int, Path]]:
    """(route, number, directory) of every segment that `path` stands for."""
    if path.is_dir() and _SEGMENT.fullmatch(path.resolve().name):
        candidates = [path.resolve()]
    elif path.is_dir():
        candidates = list(path.iterdir())
    else:
        candidates = list(path.parent.glob(f"{path.name}--*"))
    found = []
    for directory in candidates:
        match = _SEGMENT.fullmatch(directory.name)
        if match and directory.is_dir():
            found.append((match["route"], int(match["number"]), directory))
    return found


def _open_segment(number: int, directory: Path) -> Segment | None:
    # A recorder that was killed may leave one without a byte in it.
    log = next((path for path in map(directory.joinpath, LOG_NAMES) if _has_content(path)), None)
    if log is None:
        return None
    videos = {}
    for camera in CAMERAS:
        for name, services in camera.videos:
            if (directory / name).is_file():
                videos[camera.name] = (directory / name, services)
                break
    return Segment(number, log, videos)


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0
