"""Which picture of which video a logged frame became, and getting at that picture."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import capnp

from modeld.errors import ModeldError
from modeld.messaging import member_name
from modeld.replay.log import read_events
from modeld.replay.video import Picture, read_pictures

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Camera:
    """A camera by the names that it has in logs and videos; the first video found is taken.

    `videos` are (file, service of its encode indices). The small qcamera is made from the same
    frames as fcamera, picture by picture, and older devices log no indices of its own.
    """

    name: str
    state: str
    videos: tuple[tuple[str, tuple[str, ...]], ...]


CAMERAS = (
    Camera(
        "narrow",
        "narrowRoadCameraState",
        (
            ("fcamera.hevc", ("narrowRoadEncodeIdx",)),
            ("qcamera.ts", ("qNarrowRoadEncodeIdx", "narrowRoadEncodeIdx")),
        ),
    ),
    Camera("wide", "wideRoadCameraState", (("ecamera.hevc", ("wideRoadEncodeIdx",)),)),
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A minute: its log, and by camera name its video and the services of its indices."""

    number: int
    log: Path
    videos: dict[str, tuple[Path, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a frame's picture is: segment, and position in its video in presentation order."""

    frame_id: int
    segment: int
    picture: int
    sof: int
    eof: int


@dataclass(slots=True)
class Marks:
    """What one log says of frames: by (camera, frame id) where their pictures are.

    `services` tells by camera at which messages its frames stand.
    """

    places: dict[tuple[str, int], Place] = field(default_factory=dict)
    services: dict[str, str] = field(default_factory=dict)


def read_marks(segment: Segment) -> Marks:
    """Read a segment's log for its encode indices and camera messages."""
    states = {camera.name: camera.state for camera in CAMERAS if camera.name in segment.videos}
    wanted = {service for _, services in segment.videos.values() for service in services}
    announced: Counter[str] = Counter()
    indices: dict[str, list[Place]] = {}
    for event in read_events(segment.log):
        service = member_name(event)
        announced[service] += 1
        entry = _content(event, service) if service in wanted else None
        if entry is not None:
            indices.setdefault(service, []).append(_place(entry))
    marks = Marks()
    for camera, (_, services) in segment.videos.items():
        service = next((service for service in services if service in indices), services[0])
        found = indices.get(service, [])
        marks.places |= {(camera, place.frame_id): place for place in found}
        # A thinned log announces few of its frames; there, all stand at their indices.
        thinned = 2 * announced[states[camera]] < len(found)
        marks.services[camera] = service if thinned else states[camera]
    return marks


def places(event: Any, near: Sequence[Marks]) -> Iterator[tuple[str, Place | None]]:
    """The frames that stand at this event: (camera, where its picture is or None if unknown).

    `near` are the marks of the log before, this log and the log after.
    """
    name = member_name(event)
    for camera, service in near[1].services.items():
        if service == name and (entry := _content(event, service)) is not None:
            key = (camera, entry.frameId)
            yield camera, next((m.places[key] for m in near if key in m.places), None)


class Pictures:
    """The pictures of a route's videos, by camera and segment, each taken at most once, forward.

    One video is open for each camera.
    """

    def __init__(self, videos: Mapping[tuple[str, int], Path]) -> None:
        self._videos = videos
        self._open: dict[str, tuple[int, _Video]] = {}

    def take(self, camera: str, place: Place) -> Picture | None:
        """The picture at that place; None if it was passed, or its video is missing or broken."""
        number, video = self._open.get(camera, (-1, None))
        if video is None or number != place.segment:
            if (path := self._videos.get((camera, place.segment))) is None:
                return None
            video = _Video(path)
            self._open[camera] = (place.segment, video)
        return video.take(place.picture)


class _Video:
    """One video, decoded forward."""

    def __init__(self, path: Path) -> None:
        # Device cameras encode their own colours: BT.601, limited range, whatever the file's tags.
        self._pictures = read_pictures(path, "bt601", "limited")
        self._next = 0

    def take(self, number: int) -> Picture | None:
        try:
            while self._next <= number:
                self._next += 1
                picture = next(self._pictures, None)
                if picture is None or self._next == number + 1:
                    return picture
        except ModeldError as error:
            _log.warning("%s", error)
        return None


def _place(index: Any) -> Place:
    return Place(
        index.frameId, index.segmentNum, index.segmentId, index.timestampSof, index.timestampEof
    )


def _content(event: Any, service: str) -> Any | None:
    try:
        return getattr(event, service)
    except capnp.KjException:
        _log.warning("left out a %s that cannot be read", service)
        return None
