"""The messages of a simulated device: which, how often, with what in them."""

from collections import Counter

import pytest

from modeld.errors import ModeldError
from modeld.messaging import decode_event
from modeld.replay.device import CAMERAS, DeviceMessages, device_profile

SECOND = 1_000_000_000
PROFILE = device_profile("1344x760", (0.01, -0.02, 0.03), 1.3, 12.5)


def test_every_service_keeps_its_rate() -> None:
    messages = DeviceMessages(PROFILE)
    counts = Counter(service for _, service, _ in messages.until(5 * SECOND))
    assert set(counts.values()) == {1}  # the first of each, at once
    for frame in range(1, 21):
        counts.update(
            service for _, service, _ in messages.until(5 * SECOND + frame * SECOND // 20)
        )
    assert counts == {
        "deviceState": 3,
        "extrinsicsCalibration": 5,
        "driverMonitoringState": 21,
        "carState": 101,
        "carControl": 101,
    }


def test_messages_come_in_order_of_their_time_and_are_valid() -> None:
    messages = DeviceMessages(PROFILE)
    list(messages.until(SECOND))
    events = [decode_event(data) for _, _, data in messages.until(2 * SECOND)]
    times = [event.logMonoTime for event in events]
    assert times == sorted(times)
    assert times[0] == SECOND + SECOND // 100
    assert times[-1] == 2 * SECOND
    assert all(event.valid for event in events)


def test_contents() -> None:
    messages = DeviceMessages(PROFILE)
    events = {service: decode_event(data) for _, service, data in messages.until(7)}
    device = events["deviceState"].deviceState
    assert (str(device.deviceType), device.started) == ("mici", True)
    calibration = events["extrinsicsCalibration"].extrinsicsCalibration
    assert list(calibration.rpyCalib) == pytest.approx([0.01, -0.02, 0.03], rel=1e-6)
    assert list(calibration.height) == pytest.approx([1.3])
    assert (str(calibration.calStatus), calibration.calPerc) == ("calibrated", 100)
    assert events["carState"].carState.vEgo == 12.5
    assert not events["carState"].carState.standstill
    assert not events["carControl"].carControl.latActive


def test_speed_can_change() -> None:
    messages = DeviceMessages(PROFILE)
    list(messages.until(0))
    messages.speed = 0.0
    told = [
        decode_event(data) for _, service, data in messages.until(SECOND) if service == "carState"
    ]
    assert {event.carState.vEgo for event in told} == {0.0}
    assert all(event.carState.standstill for event in told)


def test_camera_states_announce_the_frame() -> None:
    data = DeviceMessages(PROFILE).camera_state("wideRoadCameraState", 8, 100, 120)
    event = decode_event(data)
    state = event.wideRoadCameraState
    assert event.logMonoTime == 120
    assert (state.frameId, state.timestampSof, state.timestampEof) == (8, 100, 120)
    assert str(state.sensor) == "os04c10"


@pytest.mark.parametrize("camera", CAMERAS)
def test_each_camera_size_belongs_to_a_device_with_such_cameras(camera: str) -> None:
    narrow = device_profile(camera, (0, 0, 0), 1.2, 0).cameras.narrow
    assert f"{narrow.width}x{narrow.height}" == camera


def test_an_unknown_camera_size_is_named() -> None:
    with pytest.raises(ModeldError, match="no known device has 640x480 cameras; choose 1928x1208"):
        device_profile("640x480", (0, 0, 0), 1.2, 0)


def test_a_message_again_is_the_same_but_for_its_time() -> None:
    messages = DeviceMessages(PROFILE)
    first: dict[str, bytes] = {}
    for moment, service, data in messages.until(2 * SECOND):
        fresh = decode_event(data).as_builder()
        assert fresh.logMonoTime == moment
        fresh.logMonoTime = 0
        timeless = fresh.to_bytes()
        assert first.setdefault(service, timeless) == timeless
    messages.speed = 7.5
    speeds = [
        decode_event(data).carState.vEgo
        for _, service, data in messages.until(3 * SECOND)
        if service == "carState"
    ]
    assert set(speeds) == {7.5}
