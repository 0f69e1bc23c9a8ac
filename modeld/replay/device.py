"""The messages that a device would publish while its cameras see what a clip shows.

Published are those that the daemon reads, at the services' own rates: calibration, deviceState,
camera states, carState, carControl and driverMonitoringState. Not lateralDelay and carParams:
nothing in a clip tells them, so the daemon's configuration stays in force.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from modeld.calibration import DeviceCameras, device_cameras
from modeld.clock import Clock
from modeld.errors import ModeldError
from modeld.messaging import new_event
from msgschema.services import BY_NAME

NS = 1_000_000_000
# Before it are the segment table and the pointer to the Event, a word each.
_TIME_AT = 16

# Frame size → deviceType and sensor of a device that has such cameras.
_DEVICES = {
    "1928x1208": ("tizi", "ox03c10"),
    "1344x760": ("mici", "os04c10"),
    "1164x874": ("neo", "unknown"),
}
CAMERAS = tuple(_DEVICES)


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """A device and its mount: rpy in radians, height in metres, speed in m/s."""

    device_type: str
    sensor: str
    rpy: tuple[float, float, float]
    height: float
    speed: float

    @property
    def cameras(self) -> DeviceCameras:
        """The intrinsics of its road cameras."""
        return device_cameras(self.device_type, self.sensor)


def device_profile(
    camera: str, rpy: tuple[float, float, float], height: float, speed: float
) -> DeviceProfile:
    """The device whose narrow camera has frames of `camera` ("1928x1208") pixels.

    Raises ModeldError for a size that no known device has.
    """
    if camera not in _DEVICES:
        raise ModeldError(f"no known device has {camera} cameras; choose {', '.join(CAMERAS)}")
    return DeviceProfile(*_DEVICES[camera], rpy, height, speed)


def _stamped(message: bytes, moment: int) -> bytes:
    """The same message at another time, which is the first word of an Event's own data."""
    return message[:_TIME_AT] + moment.to_bytes(8, "little") + message[_TIME_AT + 8 :]


class _Moment:
    """A clock that stands at the time a message is due."""

    def __init__(self) -> None:
        self.now = 0

    def monotonic_ns(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        raise NotImplementedError(f"nothing waits {seconds} s while a message is made")


class DeviceMessages:
    """Makes the messages of the device, as bytes ready to send, in order of time."""

    def __init__(self, profile: DeviceProfile) -> None:
        self._speed = profile.speed
        self._profile = profile
        self._moment = _Moment()
        self._clock: Clock = self._moment
        self._fillers: dict[str, Callable[[Any], None]] = {
            "deviceState": self._device_state,
            "extrinsicsCalibration": self._calibration,
            "driverMonitoringState": self._driver_monitoring,
            "carState": self._car_state,
            "carControl": self._car_control,
        }
        self._start: int | None = None
        self._told = dict.fromkeys(self._fillers, 0)
        # Messages that are the same again but for their time.
        self._templates: dict[str, bytes] = {}

    @property
    def services(self) -> tuple[str, ...]:
        """What `until` publishes."""
        return tuple(self._fillers)

    @property
    def speed(self) -> float:
        """In m/s; recordings in which it changes set it."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        if speed != self._speed:
            self._speed = speed
            self._templates.pop("carState", None)

    def until(self, now: int) -> Iterator[tuple[int, str, bytes]]:
        """(time, service, message) of everything due since the last call, up to `now` in ns.

        Every service sends its first message at the time of the first call.
        """
        if self._start is None:
            self._start = now
        due = []
        for service in self._fillers:
            period = round(NS / BY_NAME[service].frequency)
            last = (now - self._start) // period
            ticks = range(self._told[service], last + 1)
            due += [(self._start + tick * period, service) for tick in ticks]
            self._told[service] = last + 1
        for moment, service in sorted(due):
            if service not in self._templates:
                self._templates[service] = self._message(service, moment, self._fillers[service])
            yield moment, service, _stamped(self._templates[service], moment)

    def camera_state(self, service: str, frame_id: int, sof: int, eof: int) -> bytes:
        """The message of a camera service that announces a frame, due at its end."""

        def fill(state: Any) -> None:
            state.frameId = state.frameIdSensor = state.requestId = frame_id
            state.timestampSof, state.timestampEof = sof, eof
            state.sensor = self._profile.sensor

        return self._message(service, eof, fill)

    def _message(self, service: str, moment: int, fill: Callable[[Any], None]) -> bytes:
        self._moment.now = moment
        event = new_event(service, self._clock, valid=True)
        fill(getattr(event, service))
        data: bytes = event.to_bytes()
        return data

    def _device_state(self, state: Any) -> None:
        state.deviceType = self._profile.device_type
        state.started = True
        state.startedMonoTime = self._start
        state.thermalStatus = "ok"
        state.freeSpacePercent = 80.0
        state.memoryUsagePercent = 30

    def _calibration(self, calibration: Any) -> None:
        calibration.calStatus = "calibrated"
        calibration.calPerc = 100
        calibration.validBlocks = 50  # what calibrationd wants to have seen
        calibration.rpyCalib = list(self._profile.rpy)
        calibration.rpyCalibSpread = [0.0, 0.0, 0.0]
        calibration.wideFromDeviceEuler = [0.0, 0.0, 0.0]
        calibration.height = [self._profile.height]

    def _driver_monitoring(self, state: Any) -> None:
        state.isRHD = False

    def _car_state(self, car: Any) -> None:
        car.vEgo = car.vEgoRaw = car.vEgoCluster = self.speed
        car.standstill = self.speed == 0
        car.canValid = True
        car.gearShifter = "drive"

    def _car_control(self, control: Any) -> None:
        # Nobody steers a recording.
        control.enabled = control.latActive = control.longActive = False
