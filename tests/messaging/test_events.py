"""Building and reading single messages."""

import pytest

import msgschema
from modeld.errors import ModeldError
from modeld.fakes.clock import FakeClock
from modeld.messaging import decode_event, enum_name, member_name, new_event
from modeld.messaging.events import empty_member
from msgschema.services import SERVICES


def test_new_event_is_stamped_and_not_valid_unless_said() -> None:
    clock = FakeClock(start_ns=123_456_789)
    event = new_event("modelV2", clock)
    assert (event.logMonoTime, event.valid, event.which()) == (123_456_789, False, "modelV2")
    assert new_event("modelV2", clock, valid=True).valid


@pytest.mark.parametrize("old", ["liveCalibration", "roadCameraState", "liveDelay"])
def test_old_names_build_todays_member(old: str) -> None:
    event = new_event(old, FakeClock())
    assert event.which() in {service.name for service in SERVICES if old in service.aliases}


def test_every_service_can_be_made_sent_and_read() -> None:
    for service in SERVICES:
        event = decode_event(new_event(service.name, FakeClock()).to_bytes())
        assert event.which() == service.name
        empty_member(service)


def test_values_survive() -> None:
    event = new_event("extrinsicsCalibration", FakeClock(), valid=True)
    calibration = event.extrinsicsCalibration
    calibration.calStatus = "calibrated"
    calibration.rpyCalib = [0.0, 0.0123, -0.5]
    read = decode_event(event.to_bytes())
    assert read.valid
    assert enum_name(read.extrinsicsCalibration.calStatus) == "calibrated"
    assert list(read.extrinsicsCalibration.rpyCalib) == pytest.approx([0.0, 0.0123, -0.5])


def test_health_carries_what_a_monitor_needs() -> None:
    event = new_event("modeldHealth", FakeClock(), valid=True)
    health = event.modeldHealth
    health.artifactId = "sha256:" + "0" * 64
    health.verdict = "degraded"
    health.verdictReasons = ["built for driver 3.1, found 6.0"]
    health.state = "stalled"
    health.counters.drops = 3
    stages = health.init("stages", 2)
    stages[0].name, stages[0].durationNs = "warp", 1_200_000
    read = decode_event(event.to_bytes()).modeldHealth
    assert (enum_name(read.state), read.counters.drops) == ("stalled", 3)
    assert [stage.name for stage in read.stages] == ["warp", ""]


def test_an_unknown_service_names_the_nearest() -> None:
    with pytest.raises(
        ModeldError, match=r"service 'modelV3' is not known; did you mean modelV2\?"
    ):
        new_event("modelV3", FakeClock())
    with pytest.raises(ModeldError, match=r"service 'zzz' is not known; see msgschema/services.py"):
        new_event("zzz", FakeClock())


def test_an_enum_value_from_a_newer_schema_has_a_name() -> None:
    event = new_event("deviceState", FakeClock())
    event.deviceState.deviceType = "mici"
    # deviceType is the only thing set: the one word that holds 7 (its u16 41 is word 10, part 1).
    content = bytearray(event.to_bytes())
    at = content.index(b"\x07\x00", 8 + 8 * 5)
    content[at] = 99
    state = decode_event(bytes(content)).deviceState
    assert enum_name(state.deviceType) == "unknown(99)"
    assert enum_name(state.thermalStatus) == "ok"


def test_a_reader_outlives_the_reference_to_its_bytes() -> None:
    event = decode_event(bytes(new_event("carState", FakeClock(5)).to_bytes()))
    car = event.carState
    del event
    filler = [bytes(200) for _ in range(1000)]
    assert len(filler) == 1000
    assert car.vEgo == 0.0


def test_a_bare_event_is_sound() -> None:
    # A member never set is a null pointer of the first member.
    assert decode_event(msgschema.load().Event.new_message().to_bytes()).which() == "initData"


def test_a_member_from_a_newer_schema_has_a_name() -> None:
    content = bytearray(msgschema.load().Event.new_message().to_bytes())
    content[24:26] = (5000).to_bytes(2, "little")
    event = next(msgschema.load().Event.read_multiple_bytes(bytes(content)))
    assert member_name(event) == "unknown"
    assert member_name(decode_event(new_event("modelV2", FakeClock()).to_bytes())) == "modelV2"
