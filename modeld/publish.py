"""Parsed outputs → modelV2, drivingModelData and cameraOdometry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from modeld.action import Action
from modeld.confidence import ConfidenceMonitor, HardBrakeMonitor
from modeld.constants import (
    ACCELERATION,
    LEAD_T_IDXS,
    LEAD_T_OFFSETS,
    META_LAYOUTS,
    META_T_IDXS,
    ORIENTATION,
    ORIENTATION_RATE,
    POLY_PATH_DEGREE,
    POSITION,
    T_IDXS,
    VELOCITY,
    X_IDXS,
    MetaLayout,
)
from modeld.desire import LaneChangeDirection, LaneChangeState
from modeld.template import Template, make_marks

Array = npt.NDArray[np.float32]
Outputs = Mapping[str, Array]
# A capnp struct builder; its fields are known only to the schema.
Builder = Any

# capnp takes plain lists, and takes them fastest: arrays are turned once per group.
_T = T_IDXS.tolist()
_X = X_IDXS.tolist()
_LEAD_T = list(LEAD_T_IDXS)
_META_T = list(META_T_IDXS)
# The vector as it came, among the outputs.
_RAW = ""
# Least squares of a polynomial over fixed times is one matrix: (5, 33).
_POLY_FIT = np.linalg.pinv(np.vander(T_IDXS, POLY_PATH_DEGREE + 1, increasing=True))


@dataclass(frozen=True, slots=True)
class Turn:
    """What the messages say about a turn besides the network's answer; time in seconds."""

    frame_id: int
    frame_id_extra: int
    frame_age: int
    drop_percent: float
    timestamp_eof: int
    execution_time: float
    action: Action
    lane_change_state: LaneChangeState
    lane_change_direction: LaneChangeDirection


class ModelV2Writer:
    """Encodes modelV2 turn by turn; keeps the histories that hard-brake and confidence need.

    `event` is an empty Event builder of modelV2, which the writer keeps; `outputs` are any turn's,
    for their shapes; `raw_size` is the length of the network's vector if that is published too.
    """

    def __init__(self, event: Builder, outputs: Outputs, raw_size: int = 0) -> None:
        self._layout = META_LAYOUTS[outputs["meta"].size]
        self._hard_brake = HardBrakeMonitor(self._layout)
        self._confidence = ConfidenceMonitor(self._layout)
        self._event = event
        self._message = event.modelV2
        event.logMonoTime = 0
        marks = make_marks({**outputs, _RAW: np.zeros(raw_size, np.float32)})
        fill_outputs(self._message, marks, self._layout)
        # Parts are taken once: asking for one again takes as long as setting all of it.
        self._meta, self._action = self._message.meta, self._message.action
        if raw_size:
            self._message.rawPredictions = marks[_RAW].tobytes()
        self._template = Template(event, marks)

    def encode(
        self, outputs: Outputs, raw: Array, turn: Turn, log_mono_time: int, valid: bool
    ) -> bytes:
        """The message of a turn, encoded. Call it once per turn: the histories advance."""
        self._event.logMonoTime, self._event.valid = log_mono_time, valid
        message, meta = self._message, self._meta
        message.frameId = turn.frame_id
        message.frameIdExtra = turn.frame_id_extra
        message.frameAge = turn.frame_age
        message.frameDropPerc = turn.drop_percent
        message.timestampEof = turn.timestamp_eof
        message.modelExecutionTime = turn.execution_time
        message.confidence = int(self._confidence.update(outputs["meta"], turn.frame_id))
        meta.hardBrakePredicted = self._hard_brake.update(outputs["meta"])
        meta.laneChangeState = int(turn.lane_change_state)
        meta.laneChangeDirection = int(turn.lane_change_direction)
        _fill_action(self._action, turn.action)
        return self._template.encode({**outputs, _RAW: raw})


def fill_outputs(message: Builder, outputs: Outputs, layout: MetaLayout) -> None:
    """Fill all of a ModelDataV2 that is a copy of outputs, or never changes."""
    _fill_plan(message, outputs["plan"], outputs["plan_stds"])
    _fill_lines(message, outputs)
    _fill_leads(message.init("leadsV3", len(LEAD_T_OFFSETS)), outputs)
    _fill_meta(message.meta, outputs, layout)


def fill_driving_model_data(message: Builder, outputs: Outputs, turn: Turn) -> None:
    """Fill a DrivingModelData: the small summary that is kept in qlogs."""
    message.frameId = turn.frame_id
    message.frameIdExtra = turn.frame_id_extra
    message.frameDropPerc = turn.drop_percent
    message.modelExecutionTime = turn.execution_time
    _fill_action(message.action, turn.action)
    lines, probabilities = outputs["lane_lines"], outputs["lane_lines_prob"][1::2]
    near = message.laneLineMeta
    near.leftY, near.rightY = float(lines[1, 0, 0]), float(lines[2, 0, 0])
    near.leftProb, near.rightProb = float(probabilities[1]), float(probabilities[2])
    message.meta.laneChangeState = int(turn.lane_change_state)
    message.meta.laneChangeDirection = int(turn.lane_change_direction)
    coefficients = fit_path(outputs["plan"][:, POSITION]).T.tolist()
    path = message.path
    path.xCoefficients, path.yCoefficients, path.zCoefficients = coefficients


def fill_camera_odometry(message: Builder, outputs: Outputs, turn: Turn) -> None:
    """Fill a CameraOdometry: the car's own motion and the cameras' relative pose."""
    message.frameId = turn.frame_id
    message.timestampEof = turn.timestamp_eof
    pose, pose_stds = outputs["pose"].tolist(), outputs["pose_stds"].tolist()
    message.trans, message.rot = pose[:3], pose[3:]
    message.transStd, message.rotStd = pose_stds[:3], pose_stds[3:]
    message.wideFromDeviceEuler = outputs["wide_from_device_euler"].tolist()
    message.wideFromDeviceEulerStd = outputs["wide_from_device_euler_stds"].tolist()
    message.roadTransformTrans = outputs["road_transform"][:3].tolist()
    message.roadTransformTransStd = outputs["road_transform_stds"][:3].tolist()


def fit_path(position: Array) -> npt.NDArray[np.float64]:
    """Degree-4 polynomials in time through positions (33, 3); (5, 3), ascending powers."""
    coefficients: npt.NDArray[np.float64] = _POLY_FIT @ position
    return coefficients


def _fill_plan(message: Builder, plan: Array, stds: Array) -> None:
    columns = plan.T.tolist()
    _fill_xyzt(message.position, columns[POSITION], _T)
    _fill_xyzt(message.velocity, columns[VELOCITY], _T)
    _fill_xyzt(message.acceleration, columns[ACCELERATION], _T)
    _fill_xyzt(message.orientation, columns[ORIENTATION], _T)
    _fill_xyzt(message.orientationRate, columns[ORIENTATION_RATE], _T)
    position = message.position
    position.xStd, position.yStd, position.zStd = stds[:, POSITION].T.tolist()


def _fill_lines(message: Builder, outputs: Outputs) -> None:
    lines, edges = outputs["lane_lines"], outputs["road_edges"]
    for name, points in (("laneLines", lines), ("roadEdges", edges)):
        columns = points.transpose(0, 2, 1).tolist()
        for builder, (y, z) in zip(message.init(name, len(columns)), columns, strict=True):
            _fill_xyzt(builder, [_X, y, z], [])
    message.laneLineProbs = outputs["lane_lines_prob"][1::2].tolist()
    message.laneLineStds = outputs["lane_lines_stds"][:, 0, 0].tolist()
    message.roadEdgeStds = outputs["road_edges_stds"][:, 0, 0].tolist()


def _fill_leads(leads: Builder, outputs: Outputs) -> None:
    means = outputs["lead"].transpose(0, 2, 1).tolist()
    stds = outputs["lead_stds"].transpose(0, 2, 1).tolist()
    probabilities = outputs["lead_prob"].tolist()
    for i, lead in enumerate(leads):
        lead.prob, lead.probTime = probabilities[i], LEAD_T_OFFSETS[i]
        lead.t = _LEAD_T
        lead.x, lead.y, lead.v, lead.a = means[i]
        lead.xStd, lead.yStd, lead.vStd, lead.aStd = stds[i]


def _fill_meta(meta: Builder, outputs: Outputs, layout: MetaLayout) -> None:
    probabilities = outputs["meta"]
    meta.engagedProb = float(probabilities[0])
    meta.desireState = outputs["desire_state"].tolist()
    meta.desirePrediction = outputs["desire_pred"].ravel().tolist()
    ahead = meta.disengagePredictions
    ahead.t = _META_T
    ahead.brakeDisengageProbs = probabilities[layout.brake_disengage].tolist()
    ahead.gasDisengageProbs = probabilities[layout.gas_disengage].tolist()
    ahead.steerOverrideProbs = probabilities[layout.steer_override].tolist()
    ahead.brake3MetersPerSecondSquaredProbs = probabilities[layout.hard_brake_3].tolist()
    ahead.brake4MetersPerSecondSquaredProbs = probabilities[layout.hard_brake_4].tolist()
    ahead.brake5MetersPerSecondSquaredProbs = probabilities[layout.hard_brake_5].tolist()
    ahead.gasPressProbs = probabilities[layout.gas_press].tolist()
    if layout.brake_press is not None:
        ahead.brakePressProbs = probabilities[layout.brake_press].tolist()


def _fill_xyzt(builder: Builder, xyz: Sequence[list[float]], t: list[float]) -> None:
    builder.x, builder.y, builder.z = xyz
    builder.t = t


def _fill_action(builder: Builder, action: Action) -> None:
    builder.desiredCurvature = action.desired_curvature
    builder.desiredAcceleration = action.desired_acceleration
    builder.shouldStop = action.should_stop
