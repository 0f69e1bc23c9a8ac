"""A device made of a recording: cameras that give its frames, and the messages around them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from modeld.calibration import Intrinsics
from modeld.cameras.frame import Frame, FrameLayout, FrameSource, FrameStream
from modeld.clock import Clock
from modeld.replay.device import DeviceMessages, DeviceProfile
from modeld.replay.outlet import Outlet
from modeld.replay.pace import READOUT_NS, Pace
from modeld.replay.reel import Moment, Reel
from modeld.replay.scene import Floats
from modeld.replay.video import Bytes

_CAMERA_STATES = ("narrowRoadCameraState", "wideRoadCameraState")
# A frame that took longer to come out of the file is the source's delay, not the daemon's.
_LATE_NS = 5_000_000


@dataclass(frozen=True, slots=True)
class Recording:
    """What a source knows of itself besides its frames.

    `visible` is the part of the narrow frame that the recording fills, left, top, right, bottom in
    pixels. `total` is the number of frames, None when endless or unknown.
    """

    profile: DeviceProfile
    layout: FrameLayout
    two_cameras: bool
    visible: tuple[int, int, int, int]
    total: int | None = None
    title: str = ""
    wide_only: bool = False

    @property
    def camera(self) -> Intrinsics:
        """The main camera."""
        cameras = self.profile.cameras
        return cameras.wide if self.wide_only and cameras.wide is not None else cameras.narrow


class RecordedDevice(FrameSource, Protocol):
    """A frame source made of a recording, as replays and the daemon's command know it.

    Its `outlet` carries the messages that go with the frames, of `services`; `clock` is the
    time line of both. `last_frame` is the last one that the main camera gave, `truth` the lines
    (n, 3) known to be in it.
    """

    @property
    def recording(self) -> Recording:
        """What is known of the recording now."""

    @property
    def outlet(self) -> Outlet:
        """Where its messages are."""

    @property
    def clock(self) -> Clock:
        """Its time line."""

    @property
    def services(self) -> tuple[str, ...]:
        """Everything that it may publish."""

    @property
    def last_frame(self) -> Frame | None:
        """None before the first."""

    @property
    def truth(self) -> tuple[Floats, ...]:
        """Of the last frame; empty where nothing is known."""

    def remarks(self) -> tuple[str, ...]:
        """What went wrong with the recording so far, one line each."""


class SimulatedDevice:
    """A frame source whose `outlet` carries the messages that go with the frames.

    Taking a narrow frame publishes everything that was due until its end; give the daemon a
    transport merged from this one and the real one. `clock` is the time line of frames and
    messages; the daemon must use it too.
    """

    def __init__(
        self,
        recording: Recording,
        reel: Reel,
        pace: Pace,
        clock: Clock,
        close: Callable[[], None] = lambda: None,
        first: int = 0,
    ) -> None:
        self.recording = recording
        self.clock = clock
        # Frames that this source, not the daemon, was late with.
        self._late = 0
        self.last_frame: Frame | None = None
        self.truth: tuple[Floats, ...] = ()
        self._reel = reel
        self._pace = pace
        self._close = close
        self._messages = DeviceMessages(recording.profile)
        # Everything that it may publish.
        self.services = (*self._messages.services, *_CAMERA_STATES)
        self.outlet = Outlet(self.services)
        self._last_narrow = self._last_wide = first - 1
        self.narrow: FrameStream | None = Stream(self.take_narrow)
        self.wide: FrameStream | None = Stream(self.take_wide) if recording.two_cameras else None

    def close(self) -> None:
        """Stop decoding and release the file."""
        self._close()

    def remarks(self) -> tuple[str, ...]:
        """Says when frames could not be made fast enough."""
        if not (self._late and self._pace.real_time):
            return ()
        return (
            f"{self._late} frames were not ready in time: the recording, not the network, is too "
            "slow for this speed",
        )

    def take_narrow(self, timeout_s: float) -> Frame | None:
        """The newest narrow frame; everything due until its end is published first."""
        if self.last_frame is None:
            # Cameras begin when the first frame is made, however long that takes.
            self._reel.at(self._last_narrow + 1)
        number = self._pace.wait(self._last_narrow, timeout_s, newest=True)
        if number is None:
            return None
        moment = self._moment(number)
        frame = self._frame(number, moment.narrow)
        if moment.speed is not None:
            self._messages.speed = moment.speed
        self._publish(frame)
        self._last_narrow, self.last_frame, self.truth = number, frame, moment.truth
        return frame

    def take_wide(self, timeout_s: float) -> Frame | None:
        """The wide frame that belongs to the last narrow one, or the next."""
        last = max(self._last_wide, self._last_narrow - 1)
        number = self._pace.wait(last, timeout_s, newest=False)
        if number is None:
            return None
        data = self._moment(number).wide
        if data is None:
            return None
        self._last_wide = number
        return self._frame(number, data)

    def _moment(self, number: int) -> Moment:
        asked = self.clock.monotonic_ns()
        moment = self._reel.at(number)
        took = self.clock.monotonic_ns() - asked
        self._pace.arrived(number)
        if took > _LATE_NS:
            self._late += 1
        return moment

    def _frame(self, number: int, data: Bytes) -> Frame:
        eof = self._pace.eof(number)
        return Frame(data, self.recording.layout, number, eof - READOUT_NS, eof)

    def _publish(self, frame: Frame) -> None:
        for moment, service, message in self._messages.until(frame.timestamp_eof):
            self.outlet.send(service, message, moment)
        for service in _CAMERA_STATES[: 1 + self.recording.two_cameras]:
            message = self._messages.camera_state(
                service, frame.frame_id, frame.timestamp_sof, frame.timestamp_eof
            )
            self.outlet.send(service, message, frame.timestamp_eof)


class Stream:
    """A camera of a device, by the function that takes its frames."""

    def __init__(self, take: Callable[[float], Frame | None]) -> None:
        self._take = take

    def receive(self, timeout_s: float) -> Frame | None:
        """See `FrameStream`."""
        return self._take(timeout_s)
