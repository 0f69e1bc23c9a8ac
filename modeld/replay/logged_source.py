"""Opening a recorded route as a device."""

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from modeld.clock import Clock
from modeld.errors import ModeldError
from modeld.messaging import member_name
from modeld.replay.compare import SERVICES
from modeld.replay.device import device_profile
from modeld.replay.log import read_events
from modeld.replay.logged import (
    FIRST_HEIGHT,
    LEVEL,
    FrameMaker,
    LoggedDevice,
    MadeFrame,
    Played,
    Span,
    camera_of,
    made,
)
from modeld.replay.pace import ReplayClock
from modeld.replay.reel import Prefetch
from modeld.replay.route import LoggedFrame, LoggedMessage, Route, open_route
from modeld.replay.simulation import Recording

# Items of the log made ahead, most of them messages; and frame buffers for when none is.
_AHEAD, _BUFFERS = 16, 28


def open_logged(
    path: Path, camera: str | None, clock: Clock, factor: float | None, span: Span, ahead: bool
) -> LoggedDevice:
    """The route at `path`; its frames get the geometry `camera`, by default the videos' own.

    Raises ModeldError when the route has no log, no video or no frame.
    """
    route = open_route(path)
    played = route.play()
    before, first = _up_to_first_frame(played, path)
    camera = camera or camera_of(first.picture.size)
    make = FrameMaker(camera, _BUFFERS)
    items: Iterator[LoggedMessage | MadeFrame] = made(chain(before, [first], played), make)
    close: Callable[[], None] = _nothing
    if ahead or factor is not None:
        prefetch = Prefetch(items, _AHEAD)
        items, close = prefetch, prefetch.close
    return LoggedDevice(
        _recording(route, camera, make, span.count),
        items,
        ReplayClock(clock),
        factor,
        span,
        close,
        lambda: _remarks(route),
    )


def logged_answers(route: Route, frames: Collection[int]) -> Iterator[Any]:
    """The model messages that a route holds of its own about `frames`, as `Event` readers."""
    for segment in route.segments:
        for event in read_events(segment.log):
            service = member_name(event)
            if service in SERVICES and getattr(event, service).frameId in frames:
                yield event


def _up_to_first_frame(
    played: Iterator[Played], path: Path
) -> tuple[list[LoggedMessage], LoggedFrame]:
    messages: list[LoggedMessage] = []
    for item in played:
        if isinstance(item, LoggedFrame):
            return messages, item
        messages.append(item)
    raise ModeldError(
        f"{path} has no frame that its log tells of; give the log and the videos of one drive"
    )


def _recording(route: Route, camera: str, make: FrameMaker, total: int | None) -> Recording:
    layout = make.layout
    return Recording(
        device_profile(camera, LEVEL, FIRST_HEIGHT, 0.0),
        layout,
        two_cameras=len(route.cameras) > 1,
        visible=(0, 0, layout.width, layout.height),
        total=total,
        title=route.name,
        wide_only=route.cameras == ("wide",),
    )


def _remarks(route: Route) -> tuple[str, ...]:
    remarks = []
    if count := route.counters.frames_without_picture:
        remarks.append(f"{count} frames of the log have no picture in its videos")
    if missing := route.counters.missing_segments:
        remarks.append(f"segments {', '.join(map(str, missing))} are missing")
    return tuple(remarks)


def _nothing() -> None:
    """Lock-step holds nothing that must be released."""
