"""The daemon's loop: a pair of frames in, three messages out, twenty times a second.

Everything it works with is handed in: executor, cameras, messages, clock, health. A port to
another board replaces those and nothing here.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from modeld.action import ActionPolicy
from modeld.boundary import Ended, FrameExecutor, Inputs, Outputs
from modeld.calibration import Calibration, DeviceCameras, Intrinsics, device_cameras
from modeld.cameras.frame import EndOfStreamError, Frame, FrameSource
from modeld.cameras.pairing import FramePair, FramePairer
from modeld.clock import Clock
from modeld.config import Config
from modeld.constants import Desire
from modeld.counts import Count
from modeld.desire import DesireHelper
from modeld.drops import DropFilter
from modeld.errors import ModeldError
from modeld.guard import Answer, OutputGuard
from modeld.health import Health, TurnTimes
from modeld.manifest import Camera, Contract
from modeld.messaging import enum_name
from modeld.outputs import OutputParser
from modeld.publish import ModelV2Writer, Turn, fill_camera_odometry, fill_driving_model_data
from modeld.state import ModelInputs
from modeld.vehicle import Vehicle

Vector = npt.NDArray[np.float32]

# In the order in which they are sent.
PUBLISHED = ("modelV2", "drivingModelData", "cameraOdometry")
SUBSCRIBED = (
    "deviceState",
    "carState",
    "narrowRoadCameraState",
    "wideRoadCameraState",
    "extrinsicsCalibration",
    "driverMonitoringState",
    "carControl",
    "lateralDelay",
    "carParams",
)


class Daemon:
    """One network on one set of cameras.

    Raises ModeldError when the network is none that drives, or the source has no camera.
    """

    def __init__(
        self,
        executor: FrameExecutor,
        source: FrameSource,
        sub: Inputs,
        pub: Outputs,
        clock: Clock,
        health: Health,
        config: Config,
    ) -> None:
        slices = _slices(executor.contract)
        self._executor = executor
        self._sub = sub
        self._pub = pub
        self._clock = clock
        self._health = health
        self._config = config
        self._pairer = FramePairer(source, clock, health.report)
        self._camera_state = (
            "wideRoadCameraState" if self._pairer.wide_only else "narrowRoadCameraState"
        )
        self._camera: Camera | None = None
        self._calibration = Calibration()
        # Whether the network last looked at one picture twice.
        self._one_picture = False
        self._drops = DropFilter()
        self._vehicle = Vehicle(sub, config.vehicle, health.report)
        self._inputs = ModelInputs(executor.contract)
        self._guard = OutputGuard()
        size = _output_size(executor.contract)
        self._parser = OutputParser(slices, size)
        self._last_sound: Vector = np.zeros(size, np.float32)
        self._action = ActionPolicy()
        self._desire = DesireHelper()
        self._model_v2 = ModelV2Writer(
            pub.new_event("modelV2"),
            self._parser.parse(self._last_sound),
            size if config.messages.raw_predictions else 0,
        )

    def run(self, stop: Ended, frames: int | None = None) -> int:
        """Turn until `stop` is set, the recording ends, or `frames` turns were published.

        Returns the number of turns published. Raises ModeldError when the device fails, or when
        the first frames cannot be the network's.
        """
        published = 0
        try:
            while not stop.is_set() and published != frames:
                published += self.turn()
        except EndOfStreamError:
            pass
        return published

    def turn(self) -> bool:
        """One pass of the loop; whether messages were published.

        Raises EndOfStreamError after a recording's last frame, ModeldError as `run` does.
        """
        pair = self._pairer.receive()
        if pair is None:
            return False
        synced = self._clock.monotonic_ns()
        self._health.frames_came()
        self._sub.update()
        self._health.rejected_on_wire = sum(self._sub.rejected.values())
        if not self._fits(pair):
            return False
        self._calibrate(pair)
        situation = self._vehicle.situation(self._desire.desire)
        dropped = self._drops.update(pair.main.frame_id)
        self._health.counts[Count.DROPS] += dropped

        started = self._clock.monotonic_ns()
        result = self._executor.run_frame(
            pair.main, pair.extra, self._calibration.transforms, self._inputs.fill(situation)
        )
        executed = self._clock.monotonic_ns()

        vector: Vector = result.outputs["outputs"].reshape(-1).view(np.float32)
        sound = self._judge(vector, pair.main)
        outputs = self._parser.parse(vector if sound else self._last_sound)
        action = self._action.update(
            outputs, situation.v_ego, situation.lat_action_t, situation.long_action_t
        )
        changing = outputs["desire_state"][[Desire.LANE_CHANGE_LEFT, Desire.LANE_CHANGE_RIGHT]]
        self._desire.update(
            self._vehicle.driver(), self._vehicle.lateral_active(), float(changing.sum())
        )
        parsed = self._clock.monotonic_ns()

        main = pair.main
        turn = Turn(
            frame_id=main.frame_id,
            frame_id_extra=pair.extra.frame_id,
            frame_age=max(0, self._sub[self._camera_state].frameId - main.frame_id),
            drop_percent=self._drops.percent,
            timestamp_eof=main.timestamp_eof,
            execution_time=(parsed - started) / 1e9,
            action=action,
            lane_change_state=self._desire.state,
            lane_change_direction=self._desire.direction,
        )
        self._publish(outputs, vector, turn, sound and self._calibration.seen, dropped)
        published = self._clock.monotonic_ns()
        if sound:
            self._last_sound = vector
            self._health.answered(
                TurnTimes(
                    frame_id=main.frame_id,
                    timestamp_eof=main.timestamp_eof,
                    received=pair.received,
                    synced=synced,
                    executed=executed,
                    parsed=parsed,
                    published=published,
                    upload=result.upload_ns,
                    warp=result.warp_ns,
                    model=result.model_ns,
                    read=result.read_ns,
                )
            )
        return True

    def _fits(self, pair: FramePair) -> bool:
        """Whether the network can look at the pair; the first one decides what size is right."""
        cameras = self._executor.contract.cameras if self._camera is None else (self._camera,)
        fault = _frame_fault(pair.main, cameras)
        if fault is None and pair.extra is not pair.main:
            fault = _frame_fault(pair.extra, (_size(pair.main),))
        if fault is None:
            self._camera = _size(pair.main)
            return True
        if self._camera is None:
            raise ModeldError(fault)
        self._health.report(Count.REJECTED_FRAMES, fault)
        return False

    def _calibrate(self, pair: FramePair) -> None:
        sub, layout = self._sub, pair.main.layout
        before, self._one_picture = self._one_picture, pair.extra is pair.main
        other_camera = self._calibration.seen and before != self._one_picture
        known = sub.seen[self._camera_state] and sub.seen["deviceState"]
        if not (known and (sub.updated["extrinsicsCalibration"] or other_camera)):
            return
        try:
            device, sensor = sub["deviceState"].deviceType, sub[self._camera_state].sensor
            cameras = self._intrinsics(device_cameras(enum_name(device), enum_name(sensor)))
            angles = list(sub["extrinsicsCalibration"].rpyCalib)
            self._calibration.update(angles, *cameras, (layout.width, layout.height))
        except ModeldError as error:
            self._health.report(Count.REJECTED_MESSAGES, str(error), "calibration")

    def _intrinsics(self, cameras: DeviceCameras) -> tuple[Intrinsics, Intrinsics]:
        """Of the main and the extra picture: one camera alone is looked at twice."""
        narrow, wide = cameras.narrow, cameras.wide
        if self._one_picture and not self._pairer.wide_only:
            return narrow, narrow
        if wide is None:
            raise ModeldError(
                "frames come from a wide camera, but the device has none by its deviceType; "
                "publish the deviceType that belongs to the cameras"
            )
        return (wide, wide) if self._pairer.wide_only else (narrow, wide)

    def _judge(self, vector: Vector, main: Frame) -> bool:
        """Whether the answer can be believed; what cannot is counted, and NaN must not persist."""
        answer = self._guard.judge(vector, main)
        if answer is Answer.SOUND:
            self._health.recovered()
            return True
        if answer is Answer.NON_FINITE:
            count = np.count_nonzero(~np.isfinite(vector))
            fault = (
                f"{count} of {vector.size} outputs of frame {main.frame_id} are not finite; "
                "recurrent state set to zero, messages marked invalid"
            )
            self._health.report(Count.NON_FINITE, fault)
            self._executor.reset()
            self._inputs.reset()
        else:
            fault = (
                f"outputs of frame {main.frame_id} repeat bit for bit while pictures change; "
                "messages marked invalid"
            )
            self._health.report(Count.FROZEN, fault)
        self._health.trouble(fault)
        return False

    def _publish(
        self, outputs: Mapping[str, Vector], raw: Vector, turn: Turn, valid: bool, dropped: int
    ) -> None:
        pub = self._pub
        now = self._clock.monotonic_ns()
        pub.send("modelV2", self._model_v2.encode(outputs, raw, turn, now, valid))

        event = pub.new_event("drivingModelData", valid=valid)
        fill_driving_model_data(event.drivingModelData, outputs, turn)
        pub.send("drivingModelData", event)

        # Odometry is motion between consecutive frames: after a gap it is not that.
        event = pub.new_event("cameraOdometry", valid=valid and dropped == 0)
        fill_camera_odometry(event.cameraOdometry, outputs, turn)
        pub.send("cameraOdometry", event)


def check_contract(contract: Contract) -> None:
    """Raise ModeldError, naming what is missing, unless a `Daemon` can run such a network."""
    OutputParser(_slices(contract), _output_size(contract))
    ModelInputs(contract)


def _slices(contract: Contract) -> dict[str, tuple[int, int]]:
    if contract.kind != "driving" or not contract.output_slices:
        raise ModeldError(
            f"the artifact's model is {contract.kind!r} ({contract.generation}), not a driving "
            "network with named outputs; build one from a driving ONNX, or use `modeld exec`"
        )
    return {entry.name: (entry.start, entry.stop) for entry in contract.output_slices}


def _output_size(contract: Contract) -> int:
    for tensor in contract.outputs:
        if tensor.name == "outputs" and tensor.dtype == "float32":
            return int(np.prod(tensor.shape))
    raise ModeldError(
        "the artifact has no float32 output named outputs; build it again from a driving ONNX"
    )


def _size(frame: Frame) -> Camera:
    return Camera(frame.layout.width, frame.layout.height)


def _frame_fault(frame: Frame, cameras: tuple[Camera, ...]) -> str | None:
    """What makes a frame unusable, in one line; None when nothing does."""
    layout, size = frame.layout, _size(frame)
    if size not in cameras:
        expected = " or ".join(camera.name for camera in cameras)
        return (
            f"frame {frame.frame_id} is {size.name}, expected {expected}; "
            f"build the artifact with --camera {size.name}, or choose the camera it was built for"
        )
    if not (0 <= frame.frame_id < 1 << 32 and 0 <= frame.timestamp_eof < 1 << 64):
        return (
            f"frame id {frame.frame_id} with end of frame {frame.timestamp_eof} ns fits no "
            "message; check what the camera stamps its frames with"
        )
    if layout.stride < layout.width or layout.uv_offset < layout.stride * layout.height:
        return (
            f"frame {frame.frame_id} of {size.name} claims stride {layout.stride} and chroma at "
            f"{layout.uv_offset}, which overlap; check the camera's buffer layout"
        )
    if frame.data.size < layout.bytes:
        return (
            f"frame {frame.frame_id} of {size.name} has {frame.data.size} bytes, its layout "
            f"needs {layout.bytes}; check the camera's buffer layout"
        )
    return None
