from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import msgschema
from modeld.action import Action
from modeld.constants import META_LAYOUTS, T_IDXS, X_IDXS
from modeld.desire import LaneChangeDirection, LaneChangeState
from modeld.fakes.executor import OUTPUT_SIZE, SLICES
from modeld.messaging import decode_event
from modeld.outputs import OutputParser
from modeld.publish import (
    ModelV2Writer,
    Turn,
    fill_camera_odometry,
    fill_driving_model_data,
    fill_outputs,
    fit_path,
)

TURN = Turn(
    frame_id=41,
    frame_id_extra=40,
    frame_age=2,
    drop_percent=0.5,
    timestamp_eof=123_456_789,
    execution_time=0.012,
    action=Action(0.01, -0.5, True),
    lane_change_state=LaneChangeState.STARTING,
    lane_change_direction=LaneChangeDirection.RIGHT,
)
LAYOUT = META_LAYOUTS[55]


@pytest.fixture(scope="module")
def outputs() -> dict[str, np.ndarray]:
    vector = np.random.default_rng(3).standard_normal(OUTPUT_SIZE).astype(np.float32)
    return OutputParser(SLICES, OUTPUT_SIZE).parse(vector)


def round_trip(event: Any, member: str) -> Any:
    return getattr(next(iter(msgschema.load().Event.read_multiple_bytes(event.to_bytes()))), member)


def empty() -> Any:
    event = msgschema.load().Event.new_message()
    event.init("modelV2")
    return event


def shapes(outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.zeros_like(array) for name, array in outputs.items()}


@pytest.fixture(scope="module")
def model(outputs: dict[str, np.ndarray]) -> Any:
    writer = ModelV2Writer(empty(), shapes(outputs))
    return decode_event(writer.encode(outputs, outputs["meta"], TURN, 0, True)).modelV2


def xyz(data: Any) -> np.ndarray:
    return np.array([list(data.x), list(data.y), list(data.z)], np.float32).T


def test_frame_fields(model: Any) -> None:
    assert (model.frameId, model.frameIdExtra, model.frameAge) == (41, 40, 2)
    assert model.timestampEof == 123_456_789
    assert model.frameDropPerc == pytest.approx(0.5)
    assert model.modelExecutionTime == pytest.approx(0.012)
    assert model.action.desiredCurvature == pytest.approx(0.01)
    assert model.action.desiredAcceleration == pytest.approx(-0.5)
    assert model.action.shouldStop
    assert not model.big
    assert len(model.rawPredictions) == 0


def test_plan_groups(model: Any, outputs: dict[str, np.ndarray]) -> None:
    columns = {
        "position": 0,
        "velocity": 3,
        "acceleration": 6,
        "orientation": 9,
        "orientationRate": 12,
    }
    for name, first in columns.items():
        group = getattr(model, name)
        np.testing.assert_array_equal(xyz(group), outputs["plan"][:, first : first + 3])
        np.testing.assert_array_equal(list(group.t), T_IDXS.astype(np.float32))
        stds = [list(group.xStd), list(group.yStd), list(group.zStd)]
        if name == "position":
            np.testing.assert_array_equal(np.array(stds, np.float32).T, outputs["plan_stds"][:, :3])
        else:
            assert stds == [[], [], []]


def test_lines_and_edges(model: Any, outputs: dict[str, np.ndarray]) -> None:
    for messages, name in ((model.laneLines, "lane_lines"), (model.roadEdges, "road_edges")):
        assert len(messages) == len(outputs[name])
        for line, points in zip(messages, outputs[name], strict=True):
            np.testing.assert_array_equal(xyz(line)[:, 0], X_IDXS.astype(np.float32))
            np.testing.assert_array_equal(xyz(line)[:, 1:], points)
            assert len(line.t) == 0
    np.testing.assert_array_equal(list(model.laneLineProbs), outputs["lane_lines_prob"][1::2])
    np.testing.assert_array_equal(list(model.laneLineStds), outputs["lane_lines_stds"][:, 0, 0])
    np.testing.assert_array_equal(list(model.roadEdgeStds), outputs["road_edges_stds"][:, 0, 0])


def test_grids_are_those_of_a_real_message(data_path: Callable[[str], Path]) -> None:
    real = decode_event(data_path("logs/messages/modelV2.raw").read_bytes()).modelV2
    np.testing.assert_allclose(list(real.position.t), T_IDXS, rtol=1e-4)
    assert (len(real.laneLines), len(real.roadEdges)) == (4, 2)
    for line in [*real.laneLines, *real.roadEdges]:
        np.testing.assert_allclose(list(line.x), X_IDXS, rtol=1e-4)


def test_leads(model: Any, outputs: dict[str, np.ndarray]) -> None:
    assert [lead.probTime for lead in model.leadsV3] == [0, 2, 4]
    for i, lead in enumerate(model.leadsV3):
        assert lead.prob == outputs["lead_prob"][i]
        assert list(lead.t) == [0, 2, 4, 6, 8, 10]
        found = [list(lead.x), list(lead.y), list(lead.v), list(lead.a)]
        np.testing.assert_array_equal(found, outputs["lead"][i].T)
        stds = [list(lead.xStd), list(lead.yStd), list(lead.vStd), list(lead.aStd)]
        np.testing.assert_array_equal(stds, outputs["lead_stds"][i].T)


def test_meta(model: Any, outputs: dict[str, np.ndarray]) -> None:
    meta, probabilities = model.meta, outputs["meta"]
    assert meta.engagedProb == probabilities[0]
    np.testing.assert_array_equal(list(meta.desireState), outputs["desire_state"])
    np.testing.assert_array_equal(list(meta.desirePrediction), outputs["desire_pred"].ravel())
    assert str(meta.laneChangeState) == "laneChangeStarting"
    assert str(meta.laneChangeDirection) == "right"
    ahead = meta.disengagePredictions
    assert list(ahead.t) == [2, 4, 6, 8, 10]
    fields = {
        "brakeDisengageProbs": [2, 8, 14, 20, 26],
        "gasDisengageProbs": [1, 7, 13, 19, 25],
        "steerOverrideProbs": [3, 9, 15, 21, 27],
        "brake3MetersPerSecondSquaredProbs": [4, 10, 16, 22, 28],
        "brake4MetersPerSecondSquaredProbs": [5, 11, 17, 23, 29],
        "brake5MetersPerSecondSquaredProbs": [6, 12, 18, 24, 30],
        "gasPressProbs": [31, 35, 39, 43, 47, 51],
        "brakePressProbs": [32, 36, 40, 44, 48, 52],
    }
    for field, indices in fields.items():
        np.testing.assert_array_equal(list(getattr(ahead, field)), probabilities[indices])


def test_hard_brake_and_confidence_advance_once_a_turn(outputs: dict[str, np.ndarray]) -> None:
    risky = dict(outputs, meta=np.full(55, 0.9, np.float32))
    writer = ModelV2Writer(empty(), outputs)
    found = []
    for frame_id in range(40, 46):
        turn = Turn(frame_id, frame_id, 0, 0, 0, 0, Action(), TURN.lane_change_state, 2)  # type: ignore[arg-type]
        message = decode_event(writer.encode(risky, outputs["meta"], turn, 0, True)).modelV2
        found.append((message.meta.hardBrakePredicted, str(message.confidence)))
    assert found == [(False, "red")] * 4 + [(True, "red")] * 2


def test_networks_without_brake_press_leave_the_list_empty(
    outputs: dict[str, np.ndarray],
) -> None:
    older = dict(outputs, meta=outputs["meta"][:48])
    data = ModelV2Writer(empty(), older).encode(older, older["meta"], TURN, 0, True)
    ahead = decode_event(data).modelV2.meta.disengagePredictions
    np.testing.assert_array_equal(list(ahead.gasPressProbs), older["meta"][7:36:7])
    assert len(ahead.brakePressProbs) == 0


def filled_by_capnp(outputs: dict[str, np.ndarray], turn: Turn, raw: bytes) -> bytes:
    """A turn's modelV2, without the histories, as Cap'n Proto itself fills it."""
    event = msgschema.load().Event.new_message()
    message = event.init("modelV2")
    event.logMonoTime, event.valid = turn.timestamp_eof, turn.frame_id % 2 == 0
    message.frameId, message.frameIdExtra = turn.frame_id, turn.frame_id_extra
    message.frameAge, message.frameDropPerc = turn.frame_age, turn.drop_percent
    message.timestampEof, message.modelExecutionTime = turn.timestamp_eof, turn.execution_time
    fill_outputs(message, outputs, META_LAYOUTS[outputs["meta"].size])
    message.confidence = "green"
    message.meta.laneChangeState = int(turn.lane_change_state)
    message.meta.laneChangeDirection = int(turn.lane_change_direction)
    message.action.desiredCurvature = turn.action.desired_curvature
    message.action.desiredAcceleration = turn.action.desired_acceleration
    message.action.shouldStop = turn.action.should_stop
    if raw:
        message.rawPredictions = raw
    return bytes(event.to_bytes())


@pytest.mark.parametrize("raw_size", [0, OUTPUT_SIZE])
@pytest.mark.parametrize("width", META_LAYOUTS)
def test_every_turn_is_encoded_as_capnp_does(
    outputs: dict[str, np.ndarray], width: int, raw_size: int
) -> None:
    random = np.random.default_rng(width)
    first = dict(outputs, meta=np.zeros(width, np.float32))
    writer = ModelV2Writer(empty(), first, raw_size)
    special = np.array([0.0, -0.0, 1e-45, 3e38, -1.0], np.float32)
    for number in range(1, 30):
        turn_outputs = {
            name: random.choice(special, array.shape)
            if number % 7 == 0
            else random.standard_normal(array.shape).astype(np.float32)
            for name, array in first.items()
        }
        # Nothing bad ahead, so that the histories say nothing.
        turn_outputs["meta"] = random.uniform(0, 1e-6, width).astype(np.float32)
        raw = random.standard_normal(raw_size).astype(np.float32)
        turn = Turn(
            number,
            number - 1,
            number % 3,
            number / 64,
            int(random.integers(1 << 62)),
            number / 128,
            Action(number / 2, -number / 4, bool(number % 2)),
            LaneChangeState(number % 4),
            LaneChangeDirection(number % 3),
        )
        found = writer.encode(turn_outputs, raw, turn, turn.timestamp_eof, number % 2 == 0)
        assert found == filled_by_capnp(turn_outputs, turn, raw.tobytes())


def test_driving_model_data(outputs: dict[str, np.ndarray]) -> None:
    event = msgschema.load().Event.new_message()
    fill_driving_model_data(event.init("drivingModelData"), outputs, TURN)
    data = round_trip(event, "drivingModelData")
    assert (data.frameId, data.frameIdExtra) == (41, 40)
    assert data.frameDropPerc == pytest.approx(0.5)
    assert data.modelExecutionTime == pytest.approx(0.012)
    assert data.action.shouldStop
    lines, probabilities = outputs["lane_lines"], outputs["lane_lines_prob"]
    near = data.laneLineMeta
    assert (near.leftY, near.rightY) == (lines[1, 0, 0], lines[2, 0, 0])
    assert (near.leftProb, near.rightProb) == (probabilities[3], probabilities[5])
    assert str(data.meta.laneChangeState) == "laneChangeStarting"
    expected = np.polynomial.polynomial.polyfit(T_IDXS, outputs["plan"][:, :3], 4)
    found = [data.path.xCoefficients, data.path.yCoefficients, data.path.zCoefficients]
    np.testing.assert_allclose(np.array([list(c) for c in found]).T, expected, rtol=1e-5, atol=1e-6)


def test_path_fit_finds_a_polynomial() -> None:
    coefficients = np.array([[1, 2, 3], [20, 0, 0], [0.5, -0.1, 0], [0, 0.01, 0], [0, 0, 1e-4]])
    points = np.polynomial.polynomial.polyval(T_IDXS, coefficients).T
    np.testing.assert_allclose(fit_path(points.astype(np.float32)), coefficients, atol=2e-4)


def test_camera_odometry(outputs: dict[str, np.ndarray]) -> None:
    event = msgschema.load().Event.new_message()
    fill_camera_odometry(event.init("cameraOdometry"), outputs, TURN)
    odometry = round_trip(event, "cameraOdometry")
    assert (odometry.frameId, odometry.timestampEof) == (41, 123_456_789)
    expected = {
        "trans": outputs["pose"][:3],
        "rot": outputs["pose"][3:],
        "transStd": outputs["pose_stds"][:3],
        "rotStd": outputs["pose_stds"][3:],
        "wideFromDeviceEuler": outputs["wide_from_device_euler"],
        "wideFromDeviceEulerStd": outputs["wide_from_device_euler_stds"],
        "roadTransformTrans": outputs["road_transform"][:3],
        "roadTransformTransStd": outputs["road_transform_stds"][:3],
    }
    for field, values in expected.items():
        np.testing.assert_array_equal(list(getattr(odometry, field)), values)
