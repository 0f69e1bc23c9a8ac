"""Messages recorded on real devices decode to sensible values and re-encode to their bytes."""

import bz2
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import msgschema

DataPath = Callable[[str], Path]

CALIBRATION_EVENTS = {1: 237, 5: 241}  # every other segment has 240


def events(content: bytes) -> Iterator[Any]:
    return iter(msgschema.load().Event.read_multiple_bytes(content, 1 << 62))


def test_model_v2(data_path: DataPath) -> None:
    content = data_path("logs/messages/modelV2.raw").read_bytes()
    (event,) = events(content)
    assert event.which() == "modelV2"
    model = event.modelV2
    assert model.frameId == 3602
    assert event.logMonoTime > model.timestampEof
    assert [len(line.y) for line in model.laneLines] == [33] * 4
    assert len(model.position.x) == 33
    assert model.position.t[32] == 10.0
    assert list(model.position.t) == sorted(model.position.t)
    assert all(0 <= p <= 1 for p in model.laneLineProbs)
    assert len(model.laneLineProbs) == 4
    assert len(model.leadsV3) == 3
    assert model.leadsV3[0].prob == pytest.approx(0.91244, abs=1e-5)
    assert sum(model.meta.desireState) == pytest.approx(1.0, abs=1e-5)
    assert 0 < model.modelExecutionTime < 0.1


def test_model_v2_survives_a_copy_value_by_value(data_path: DataPath) -> None:
    (event,) = events(data_path("logs/messages/modelV2.raw").read_bytes())
    copied = next(events(event.as_builder().to_bytes()))
    assert copied.to_dict() == event.to_dict()


def test_camera_odometry(data_path: DataPath) -> None:
    content = data_path("logs/messages/cameraOdometry.raw").read_bytes()
    (event,) = events(content)
    odometry = event.cameraOdometry
    assert [len(v) for v in (odometry.trans, odometry.rot, odometry.transStd)] == [3, 3, 3]
    assert all(0 < std < 10 for std in (*odometry.transStd, *odometry.rotStd))
    assert 0 <= odometry.trans[0] < 60
    assert event.as_builder().to_bytes() == content


@pytest.mark.parametrize("segment", range(1, 11))
def test_calibration_logs(data_path: DataPath, segment: int) -> None:
    path = data_path(f"logs/process_replay/segment{segment}_calibrationd.bz2")
    content = bz2.decompress(path.read_bytes())
    found = list(events(content))
    assert len(found) == CALIBRATION_EVENTS.get(segment, 240)
    assert {event.which() for event in found} == {"extrinsicsCalibration"}
    assert b"".join(event.as_builder().to_bytes() for event in found) == content
    for event in found:
        calibration = event.extrinsicsCalibration
        assert 0 <= calibration.calPerc <= 100
        # The mount's limits, widened: pitch and yaw within 0.2 rad, roll never estimated.
        assert all(abs(angle) < 0.2 for angle in calibration.rpyCalib)
        assert len(calibration.extrinsicMatrix) == 12


def test_controls_log_counts_every_event(data_path: DataPath) -> None:
    content = bz2.decompress(data_path("logs/process_replay/segment_controlsd.bz2").read_bytes())
    found = list(events(content))
    assert Counter(event.which() for event in found) == {
        "reserved17": 5994,
        "controlsState": 5994,
        "carState": 5994,
        "carControl": 5994,
        "reserved68": 71,
        "carParams": 2,
    }
    assert b"".join(event.as_builder().to_bytes() for event in found) == content


def test_controls_log_values(data_path: DataPath) -> None:
    content = bz2.decompress(data_path("logs/process_replay/segment_controlsd.bz2").read_bytes())
    by_member: dict[str, list[Any]] = {}
    for event in events(content):
        by_member.setdefault(event.which(), []).append(getattr(event, event.which()))
    for car in by_member["carState"]:
        assert 0 <= car.vEgo < 60
        assert abs(car.steeringAngleDeg) < 720
    # Wheel speeds and the estimate of the speed are of one car.
    late = by_member["carState"][-1]
    assert late.wheelSpeeds.fl == pytest.approx(late.vEgo, abs=1.0)
    params = by_member["carParams"][-1]
    assert params.carFingerprint
    assert 500 < params.mass < 4000
    assert 2 < params.wheelbase < 4
    assert 0 < params.steerActuatorDelay < 1
    assert math.isfinite(params.radarTimeStepDEPRECATED)
    states = {str(state.stateDEPRECATED) for state in by_member["controlsState"]}
    assert "enabled" in states


def test_framing_is_plain_stream_messages(data_path: DataPath) -> None:
    # Two segments in one message, as C++ senders make them: the table counts both.
    content = data_path("logs/messages/modelV2.raw").read_bytes()
    count, first, second = struct.unpack_from("<3I", content)
    assert count == 1
    assert len(content) == 16 + 8 * (first + second)
