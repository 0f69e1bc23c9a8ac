"""A recorded route as a device: its frames and messages, in the order in which they happened."""

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from modeld.cameras.frame import EndOfStreamError, Frame, FrameStream
from modeld.cameras.nv12 import venus_layout
from modeld.clock import Clock
from modeld.daemon import SUBSCRIBED
from modeld.messaging import MessageError, member_name
from modeld.messaging.validate import check_message
from modeld.replay.device import CAMERAS, NS, device_profile
from modeld.replay.outlet import Outlet
from modeld.replay.pace import ReplayClock
from modeld.replay.reel import FrameRing
from modeld.replay.resample import Resampler, scaled_pixels
from modeld.replay.route import LoggedFrame, LoggedMessage
from modeld.replay.scene import Floats
from modeld.replay.simulation import Recording, Stream
from modeld.replay.video import Bytes, Picture

# Assumed of the mount until the log's calibration tells it; calibrationd starts with it too.
FIRST_HEIGHT = 1.22
LEVEL = (0.0, 0.0, 0.0)
_KEPT_FRAMES = 4
# A frame this late is skipped when frames come at their own rhythm, as a camera would.
_PERIOD_NS = NS // 20

Played = LoggedMessage | LoggedFrame


@dataclass(frozen=True, slots=True)
class MadeFrame:
    """A frame of the log with its picture in the device's geometry."""

    camera: str
    frame: Frame


class FrameMaker:
    """Turns logged pictures into frames of the device's geometry.

    A full-size video is taken as it is; a preview (qcamera) is enlarged.
    """

    def __init__(self, camera: str, buffers: int) -> None:
        narrow = device_profile(camera, LEVEL, FIRST_HEIGHT, 0.0).cameras.narrow
        self.layout = venus_layout(narrow.width, narrow.height)
        self._camera = narrow
        self._ring = FrameRing(buffers, self.layout.bytes)
        self._resamplers: dict[tuple[int, int], Resampler] = {}

    def __call__(self, logged: LoggedFrame) -> Frame:
        """The frame with the log's id and times."""
        data = self._draw(logged.picture, self._ring.take())
        frame_id, sof, eof = logged.frame_id, logged.timestamp_sof, logged.timestamp_eof
        return Frame(data, self.layout, frame_id, sof, eof)

    def _draw(self, picture: Picture, data: Bytes) -> Bytes:
        size = picture.size
        if size not in self._resamplers:
            self._resamplers[size] = Resampler(
                size, self.layout, lambda pixels: scaled_pixels(size, self._camera, pixels)
            )
        return self._resamplers[size](picture, data)


def is_sound(data: bytes) -> bool:
    """Whether a daemon will accept the message."""
    try:
        check_message(data)
    except MessageError:
        return False
    return True


def camera_of(size: tuple[int, int]) -> str:
    """The device geometry that pictures of `size` belong to: the same, or the nearest shape."""
    name = f"{size[0]}x{size[1]}"
    if name in CAMERAS:
        return name
    shape = size[0] / size[1]

    def apart(camera: str) -> float:
        width, height = map(int, camera.split("x"))
        return abs(width / height - shape)

    return min(CAMERAS, key=apart)


def made(played: Iterator[Played], make: FrameMaker) -> Iterator[LoggedMessage | MadeFrame]:
    """What a route plays, its pictures redrawn as frames."""
    for item in played:
        yield item if isinstance(item, LoggedMessage) else MadeFrame(item.camera, make(item))


@dataclass(frozen=True, slots=True)
class Span:
    """Frames of the main camera before `first` are skipped, at most `count` are given."""

    first: int = 0
    count: int | None = None


class LoggedDevice:
    """See `RecordedDevice`. Lock-step when `factor` is None, else that much faster than recorded.

    Messages are published as the log has them, everything before a frame before that frame.
    """

    services = tuple(SUBSCRIBED)

    def __init__(
        self,
        recording: Recording,
        items: Iterator[LoggedMessage | MadeFrame],
        clock: ReplayClock,
        factor: float | None,
        span: Span,
        close: Callable[[], None],
        remarks: Callable[[], tuple[str, ...]],
    ) -> None:
        self.recording = recording
        self.clock: Clock = clock
        self.last_frame: Frame | None = None
        self.truth: tuple[Floats, ...] = ()
        self.close = close
        self.remarks = remarks
        self._replay_clock = clock
        self._items = items
        self._factor = factor
        self._span = span
        self._main = "wide" if recording.wide_only else "narrow"
        self._seen = self._given = 0
        self.outlet = Outlet(self.services)
        self._waiting = {name: deque[Frame](maxlen=_KEPT_FRAMES) for name in ("narrow", "wide")}
        main, extra = Stream(self.take_main), Stream(self.take_extra)
        self.narrow: FrameStream | None = None if recording.wide_only else main
        self.wide: FrameStream | None = main if recording.wide_only else None
        if recording.two_cameras:
            self.wide = extra

    def take_main(self, timeout_s: float) -> Frame:
        """The main camera's next frame; raises EndOfStreamError after the last."""
        if self._given == self._span.count:
            raise EndOfStreamError
        queue = self._waiting[self._main]
        while True:
            while not queue:
                self._advance()
            frame = queue.popleft()
            if self._factor is None or not self._too_late(frame):
                break
        self._arrive(frame.timestamp_eof)
        self._given += 1
        self.last_frame = frame
        return frame

    def take_extra(self, timeout_s: float) -> Frame | None:
        """The wide camera's next frame; None when the narrow one is two frames ahead of it."""
        main, extra = self._waiting["narrow"], self._waiting["wide"]
        while not extra:
            self._advance()
            if len(main) > 1:
                # A gap in the wide video; the daemon decides what to do without its frame.
                main.popleft()
                return None
        return extra.popleft()

    def _too_late(self, frame: Frame) -> bool:
        return self.last_frame is not None and (
            self.clock.monotonic_ns() - frame.timestamp_eof > _PERIOD_NS
        )

    def _arrive(self, eof: int) -> None:
        """Bring the clock to the frame's end, in its own time unless in lock-step."""
        ahead = eof - self.clock.monotonic_ns()
        if self._factor is not None and self.last_frame is not None and ahead > 0:
            self.clock.sleep(ahead / self._factor / NS)
        self._replay_clock.jump(eof)

    def _advance(self) -> None:
        """Take in the log's next item; raises EndOfStreamError at its end."""
        item = next(self._items, None)
        if item is None:
            raise EndOfStreamError
        if isinstance(item, LoggedMessage):
            self._publish(item)
            return
        if item.camera == self._main:
            self._seen += 1
            if self._seen <= self._span.first:
                return
        # The other camera's frame may come first; older ones fall out of the queue.
        self._waiting[item.camera].append(item.frame)

    def _publish(self, message: LoggedMessage) -> None:
        service = member_name(message.event).removesuffix("DEPRECATED")
        if service not in self.services:
            return
        # Damage in it is for the daemon to see and to count, and for nobody else.
        sound = is_sound(message.data)
        self.outlet.send(service, message.data, message.event.logMonoTime if sound else None)
        if service == "extrinsicsCalibration" and sound:
            self._look_from(message.event.extrinsicsCalibration)

    def _look_from(self, calibration: Any) -> None:
        """Remember the mount for those who draw on frames; the daemon judges for itself."""
        profile = self.recording.profile
        rpy, height = list(calibration.rpyCalib), list(calibration.height)
        if len(rpy) == 3 and np.isfinite(rpy).all():
            profile = dataclasses.replace(profile, rpy=(rpy[0], rpy[1], rpy[2]))
        if height and height[0] > 0:
            profile = dataclasses.replace(profile, height=height[0])
        self.recording = dataclasses.replace(self.recording, profile=profile)
