"""SubMaster: what it believes, when, with time in the test's hands."""

import pytest

from modeld.errors import ModeldError
from modeld.fakes.clock import FakeClock
from modeld.fakes.transport import MemoryTransport
from modeld.messaging import PubMaster, SubMaster, new_event

MS = 1_000_000
SERVICES = ("carState", "deviceState", "logMessage")


class Device:
    """A publisher, a subscriber and the time between them."""

    def __init__(self, *services: str, **options: object) -> None:
        self.clock = FakeClock()
        self.wire = MemoryTransport()
        self.pub = PubMaster(services, self.wire, self.clock)
        self.sub = SubMaster(services, self.wire, self.clock, **options)  # type: ignore[arg-type]

    def send(self, service: str, *, valid: bool = True) -> None:
        self.pub.send(service, self.pub.new_event(service, valid=valid))


def test_before_the_first_message() -> None:
    sub = Device(*SERVICES).sub
    sub.update()
    for state in (sub.updated, sub.seen):
        assert state == dict.fromkeys(SERVICES, False)
    # A service without a frequency is never missed.
    for state in (sub.alive, sub.valid, sub.freq_ok):
        assert state == {"carState": False, "deviceState": False, "logMessage": True}
    assert sub.recv_time == sub.log_mono_time == dict.fromkeys(SERVICES, 0)
    assert sub["carState"].vEgo == 0.0
    assert sub["logMessage"] == ""


def test_a_message_arrives_and_stays() -> None:
    device = Device(*SERVICES)
    event = device.pub.new_event("carState", valid=True)
    event.carState.vEgo = 12.5
    device.pub.send("carState", event)
    device.clock.advance(3 * MS)
    device.sub.update()
    assert device.sub.updated == {"carState": True, "deviceState": False, "logMessage": False}
    assert device.sub["carState"].vEgo == 12.5
    assert device.sub.seen["carState"] and device.sub.valid["carState"]
    assert device.sub.recv_time["carState"] - device.sub.log_mono_time["carState"] == 3 * MS
    device.sub.update()
    assert not device.sub.updated["carState"]
    assert device.sub["carState"].vEgo == 12.5


def test_only_the_newest_is_kept() -> None:
    device = Device("carState")
    for speed in (1.0, 2.0, 3.0):
        event = device.pub.new_event("carState")
        event.carState.vEgo = speed
        device.pub.send("carState", event)
    device.sub.update()
    assert device.sub["carState"].vEgo == 3.0
    device.sub.update()
    assert not device.sub.updated["carState"]


@pytest.mark.parametrize(("service", "limit_ms"), [("carState", 100), ("deviceState", 5000)])
def test_dead_after_ten_periods(service: str, limit_ms: int) -> None:
    device = Device(service)
    device.send(service)
    device.sub.update()
    device.clock.advance(limit_ms * MS - 1)
    device.sub.update()
    assert device.sub.alive[service]
    device.clock.advance(1)
    device.sub.update()
    assert not device.sub.alive[service]
    device.send(service)
    device.sub.update()
    assert device.sub.alive[service]


def test_valid_is_the_last_senders_word() -> None:
    device = Device("carState")
    for word in (True, False, True):
        device.send("carState", valid=word)
        device.sub.update()
        assert device.sub.valid["carState"] is word


def run_at(device: Device, service: str, period_ms: int, count: int) -> None:
    for _ in range(count):
        device.clock.advance(period_ms * MS)
        device.send(service)
        device.sub.update()


def test_rhythm() -> None:
    device = Device("deviceState", "cameraOdometry", update_hz=20.0)
    run_at(device, "cameraOdometry", 50, 2)
    assert device.sub.freq_ok["cameraOdometry"]
    run_at(device, "cameraOdometry", 20, 300)
    assert not device.sub.freq_ok["cameraOdometry"]
    assert not device.sub.all_freq_ok()


def test_pace_is_that_of_the_service_waited_for() -> None:
    # carState sends 100 Hz; a reader paced by the 20 Hz odometry must see 20 of them.
    device = Device("carState", "cameraOdometry", poll="cameraOdometry")
    run_at(device, "carState", 50, 50)
    assert device.sub.freq_ok["carState"]
    hasty = Device("carState", "cameraOdometry")
    run_at(hasty, "carState", 50, 50)
    assert not hasty.sub.freq_ok["carState"]


def test_a_rare_service_has_no_rhythm_to_keep() -> None:
    device = Device("carParams")
    assert device.sub.freq_ok["carParams"]
    device.send("carParams")
    device.sub.update()
    assert device.sub.all_checks()


def test_all_checks_and_what_is_ignored() -> None:
    device = Device(
        "carState",
        "deviceState",
        update_hz=20.0,
        ignore_alive=("deviceState",),
        ignore_valid=("deviceState",),
    )
    run_at(device, "carState", 50, 20)
    assert device.sub.all_checks()
    assert device.sub.all_checks(["carState"])
    assert not Device("carState").sub.all_checks()
    device.send("carState", valid=False)
    device.sub.update()
    assert device.sub.all_alive() and not device.sub.all_valid() and not device.sub.all_checks()


def test_old_and_new_names_meet() -> None:
    clock, wire = FakeClock(), MemoryTransport()
    sub = SubMaster(["liveCalibration", "narrowRoadCameraState"], wire, clock)
    pub = PubMaster(["extrinsicsCalibration", "roadCameraState"], wire, clock)
    event = pub.new_event("roadCameraState")
    event.narrowRoadCameraState.frameId = 42
    pub.send("roadCameraState", event)
    event = pub.new_event("extrinsicsCalibration")
    event.extrinsicsCalibration.calPerc = 7
    pub.send("extrinsicsCalibration", event)
    sub.update()
    assert sub["narrowRoadCameraState"].frameId == 42
    assert sub["liveCalibration"].calPerc == 7


def test_the_older_driver_monitoring_message_is_understood() -> None:
    device = Device("driverMonitoringState")
    event = device.pub.new_event("driverMonitoringState", valid=True)
    event.init("driverMonitoringStateDEPRECATED").isRHD = True
    device.pub.send("driverMonitoringState", event)
    device.sub.update()
    assert device.sub.updated["driverMonitoringState"]
    assert device.sub["driverMonitoringState"].isRHD


def test_a_bad_message_is_counted_and_the_last_good_one_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    device = Device("carState")
    event = device.pub.new_event("carState", valid=True)
    event.carState.vEgo = 9.0
    device.pub.send("carState", event)
    device.sub.update()
    for garbage in (b"garbage!", b"", b"garbage!", new_event("modelV2", device.clock).to_bytes()):
        device.pub.send("carState", garbage)
        device.sub.update()
        assert not device.sub.updated["carState"]
    assert device.sub.rejected == {
        ("carState", "framing"): 2,
        ("carState", "empty"): 1,
        ("carState", "wrong member"): 1,
    }
    assert device.sub.last_rejection == "carState: message carries modelV2"
    assert device.sub["carState"].vEgo == 9.0
    # Told once for each reason, not at the sender's rate.
    assert len(caplog.records) == 3


def test_unknown_services_are_refused_at_the_door() -> None:
    clock, wire = FakeClock(), MemoryTransport()
    with pytest.raises(ModeldError, match="carStat"):
        SubMaster(["carStat"], wire, clock)
    with pytest.raises(ModeldError, match="carStat"):
        PubMaster(["carStat"], wire, clock)


def test_sending_what_was_not_declared() -> None:
    device = Device("carState")
    with pytest.raises(KeyError, match="modelV2 is not among carState"):
        device.send("modelV2")
