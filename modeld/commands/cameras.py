"""The road cameras of `modeld run`: waited for, and exchanged when the server has others."""

import argparse
import logging
import threading
from collections.abc import Iterator
from contextlib import closing

from modeld.cameras.frame import FrameSource
from modeld.cameras.visionipc.paths import VisionIpcConfig
from modeld.cameras.visionipc.source import CameraSearch, CameraWatch, VisionIpcSource
from modeld.counts import Count
from modeld.frame_buffers import FrameBuffers
from modeld.health import Health

_SEARCH_S = 0.5


def camera_server(args: argparse.Namespace) -> VisionIpcConfig:
    """The server that --server and --prefix name; raises ModeldError for impossible names."""
    return VisionIpcConfig(args.server or "camerad", args.prefix or "")


class Until:
    """Set when `stop` is, or when the server's cameras are no longer those of the source."""

    def __init__(self, stop: threading.Event, watch: CameraWatch) -> None:
        self._stop = stop
        self._watch = watch

    def is_set(self) -> bool:
        """See `Ended`."""
        return self._stop.is_set() or self._watch.changed()


def camera_sources(
    config: VisionIpcConfig, stop: threading.Event, health: Health
) -> Iterator[tuple[VisionIpcSource, Until]]:
    """The cameras that are there, and each time that the server has others, those; until `stop`.

    A source is closed when the next one is asked for, its counters kept in `health`.
    """
    while (source := _wait_for_cameras(config, stop, health)) is not None:
        names = " and ".join(source.counters)
        logging.getLogger(__name__).info("cameras at %s: %s", config.socket_path, names)
        with closing(source), closing(CameraWatch(config, source, health.clock)) as watch:
            yield source, Until(stop, watch)
        health.camera_counts = dict
        health.counts.update(stream_counts(source))
        health.counts[Count.RECONNECTS] += not stop.is_set()


def stream_counts(source: FrameSource) -> dict[Count, int]:
    """What the camera streams counted themselves."""
    streams = source.counters.values() if isinstance(source, VisionIpcSource) else ()
    return {
        Count.RECONNECTS: sum(stream.reconnected for stream in streams),
        Count.REJECTED_FRAMES: sum(stream.rejected for stream in streams),
    }


def camera_counts(source: FrameSource, buffers: FrameBuffers) -> dict[Count, int]:
    """Those, and how pictures reached the device."""
    return {
        Count.FRAMES_IN_PLACE: buffers.used_in_place,
        Count.FRAMES_COPIED: buffers.copied,
        **stream_counts(source),
    }


def _wait_for_cameras(
    config: VisionIpcConfig, stop: threading.Event, health: Health
) -> VisionIpcSource | None:
    """The road cameras, or None when stopped before they came."""
    with closing(CameraSearch(config, health.clock)) as search:
        while not stop.is_set():
            source = search.poll(_SEARCH_S)
            if source is not None:
                return source
            health.enter(health.state, f"waiting for cameras at {config.socket_path}")
    return None
