import re
import threading
from dataclasses import replace

import numpy as np
import pytest
from daemon_bench import TURN_NS, Bench, Vector, noise

from modeld.calibration import MEDMODEL, SBIGMODEL, device_cameras, warp_matrix
from modeld.cameras.frame import FrameLayout
from modeld.cameras.nv12 import packed_layout, venus_layout
from modeld.cameras.pairing import SILENT_AFTER
from modeld.config import Config, MessagesConfig, VehicleConfig
from modeld.counts import Count
from modeld.errors import ModeldError
from modeld.fakes.camera import fake_frame, fake_frames
from modeld.fakes.executor import driving_contract
from modeld.health import State

OS = device_cameras("mici", "os04c10")
OS_LAYOUT = packed_layout(1344, 760)


def run(bench: Bench, frames: int | None = None) -> int:
    return bench.daemon.run(threading.Event(), frames)


def test_every_pair_is_answered_once_with_consecutive_ids() -> None:
    bench = Bench(fake_frames(100), fake_frames(100))
    assert run(bench) == 100
    for service in ("modelV2", "drivingModelData"):
        events = bench.received(service)
        assert [getattr(e, service).frameId for e in events] == list(range(100))
        assert [getattr(e, service).frameIdExtra for e in events] == list(range(100))
        assert all(getattr(e, service).frameDropPerc == 0 for e in events)
    odometry = bench.received("cameraOdometry")
    assert [e.cameraOdometry.frameId for e in odometry] == list(range(100))
    assert [e.cameraOdometry.timestampEof for e in odometry] == [
        50_000_000 * (i + 1) + 20_000_000 for i in range(100)
    ]
    assert bench.health.counts[Count.FRAMES] == 100
    assert bench.notifier.count("WATCHDOG") == 100


def test_messages_of_a_turn_leave_in_order() -> None:
    sent: list[str] = []
    bench = Bench(fake_frames(2))
    original = bench.daemon._pub.send
    bench.daemon._pub.send = lambda service, event: (  # type: ignore[method-assign]
        sent.append(service),
        original(service, event),
    )
    run(bench)
    assert sent == ["modelV2", "drivingModelData", "cameraOdometry"] * 2


def test_zero_matrices_and_invalid_before_the_first_calibration() -> None:
    bench = Bench(fake_frames(4, layout=OS_LAYOUT), width=1344, height=760)
    assert bench.daemon.turn()
    bench.send("deviceState", deviceType="mici")
    bench.send("narrowRoadCameraState", sensor="os04c10")
    assert bench.daemon.turn()
    np.testing.assert_array_equal(bench.executor.calls[1].transforms, np.zeros((2, 3, 3)))
    bench.send("extrinsicsCalibration", rpyCalib=[0, 0.01, -0.02])
    assert bench.daemon.turn()
    assert bench.daemon.turn()
    expected = warp_matrix(np.float32([0, 0.01, -0.02]), OS.narrow, MEDMODEL)
    for call in bench.executor.calls[2:]:
        np.testing.assert_array_equal(call.transforms[0], expected.astype(np.float32))
    for service in ("modelV2", "drivingModelData", "cameraOdometry"):
        assert [e.valid for e in bench.received(service)] == [False, False, True, True]


def test_calibration_waits_for_device_and_camera_to_be_known() -> None:
    bench = Bench(fake_frames(3, layout=OS_LAYOUT), width=1344, height=760)
    bench.send("extrinsicsCalibration", rpyCalib=[0, 0, 0])
    bench.daemon.turn()
    bench.send("deviceState", deviceType="mici")
    bench.send("narrowRoadCameraState", sensor="os04c10")
    bench.daemon.turn()  # the calibration is no news any more
    bench.send("extrinsicsCalibration", rpyCalib=[0, 0, 0])
    bench.daemon.turn()
    assert [e.valid for e in bench.received("modelV2")] == [False, False, True]


@pytest.mark.parametrize(
    ("cameras", "main", "extra"),
    [
        ("both", OS.narrow, OS.wide),
        ("narrow", OS.narrow, OS.narrow),
        ("wide", OS.wide, OS.wide),
    ],
)
def test_intrinsics_of_each_arrangement(cameras: str, main: object, extra: object) -> None:
    def frames() -> list:
        return list(fake_frames(1, layout=OS_LAYOUT))

    bench = Bench(
        None if cameras == "wide" else frames(),
        None if cameras == "narrow" else frames(),
        width=1344,
        height=760,
    )
    bench.calibrate()
    assert bench.daemon.turn()
    (call,) = bench.executor.calls
    np.testing.assert_array_equal(
        call.transforms,
        np.stack(
            [warp_matrix([0, 0, 0], main, MEDMODEL), warp_matrix([0, 0, 0], extra, SBIGMODEL)]  # type: ignore[arg-type]
        ).astype(np.float32),
    )
    assert (call.wide is call.narrow) == (cameras != "both")


def test_a_silent_wide_camera_is_replaced_by_the_narrow_one_with_its_own_intrinsics() -> None:
    wide = [*fake_frames(1, layout=OS_LAYOUT), *[None] * (SILENT_AFTER + 1)]
    wide += fake_frames(2, first=3, layout=OS_LAYOUT)
    bench = Bench(fake_frames(5, layout=OS_LAYOUT), wide, width=1344, height=760)
    bench.calibrate()
    assert run(bench) == 4
    extras = [
        warp_matrix([0, 0, 0], camera, SBIGMODEL).astype(np.float32)
        for camera in (OS.wide, OS.narrow, OS.wide, OS.wide)
        if camera is not None
    ]
    calls = bench.executor.calls
    assert [call.narrow.frame_id for call in calls] == [0, 2, 3, 4]
    assert [call.wide is call.narrow for call in calls] == [False, True, False, False]
    for call, extra in zip(calls, extras, strict=True):
        np.testing.assert_array_equal(call.transforms[1], extra)
    assert bench.health.counts[Count.WIDE_MISSING] == SILENT_AFTER + 1
    assert all(event.valid for event in bench.received("modelV2"))


def test_drops_make_odometry_invalid_for_that_frame_only() -> None:
    ids = [*range(20), 21, 22]
    bench = Bench((fake_frame(i, layout=OS_LAYOUT) for i in ids), width=1344, height=760)
    bench.calibrate()
    assert run(bench) == len(ids)
    odometry = {e.cameraOdometry.frameId: e.valid for e in bench.received("cameraOdometry")}
    assert [i for i, valid in odometry.items() if not valid] == [21]
    models = {e.modelV2.frameId: e for e in bench.received("modelV2")}
    assert all(e.valid for e in models.values())
    assert models[19].modelV2.frameDropPerc == 0
    assert models[21].modelV2.frameDropPerc == pytest.approx(0.495, abs=5e-4)
    assert bench.health.counts[Count.DROPS] == 1


def test_non_finite_outputs_are_marked_and_do_not_persist() -> None:
    def answer(turn: int) -> Vector:
        vector = noise(turn)
        if turn in (3, 4):
            vector[0, 1000 + turn] = np.nan
        return vector

    bench = Bench(fake_frames(7, layout=OS_LAYOUT), answer=answer, width=1344, height=760)
    bench.calibrate()
    for _ in range(4):
        bench.daemon.turn()
    assert bench.health.current(bench.clock.monotonic_ns())[0] is State.DEGRADED
    assert run(bench) == 3
    events = bench.received("modelV2")
    assert [e.valid for e in events] == [True, True, True, False, False, True, True]
    positions = np.array([list(e.modelV2.position.x) for e in events])
    assert np.isfinite(positions).all()
    np.testing.assert_array_equal(positions[3], positions[2])  # the last answer that was sound
    assert bench.executor.resets == 2
    assert bench.health.counts[Count.NON_FINITE] == 2
    assert bench.notifier.count("WATCHDOG") == 5
    assert bench.health.current(bench.clock.monotonic_ns())[0] is State.RUNNING


def test_frozen_outputs_are_marked() -> None:
    bench = Bench(
        fake_frames(30, layout=OS_LAYOUT), answer=lambda turn: noise(0), width=1344, height=760
    )
    bench.calibrate()
    run(bench)
    valid = [e.valid for e in bench.received("modelV2")]
    assert valid == [True] * 20 + [False] * 10
    assert bench.health.counts[Count.FROZEN] == 10


def test_desire_is_one_pulse_and_small_inputs_follow_the_messages() -> None:
    config = Config(vehicle=VehicleConfig(0.2, 0.4, right_hand_drive=True))
    bench = Bench(fake_frames(6), config=config)
    bench.daemon.turn()
    inputs = bench.executor.calls[0].inputs
    np.testing.assert_array_equal(inputs["traffic_convention"], [[0, 1]])
    np.testing.assert_allclose(inputs["action_t"], [[0.4 + 0.075, 0.2 + 0.3 + 0.075]], rtol=1e-6)

    bench.send("driverMonitoringState", isRHD=False)
    bench.send("lateralDelay", lateralDelay=0.25)
    bench.send("carParams", longitudinalActuatorDelay=0.5)
    bench.send("carControl", latActive=True)
    bench.send("carState", vEgo=20.0, leftBlinker=True, steeringPressed=True, steeringTorque=1.0)
    for _ in range(5):
        bench.daemon.turn()
    inputs = bench.executor.calls[1].inputs
    np.testing.assert_array_equal(inputs["traffic_convention"], [[1, 0]])
    np.testing.assert_allclose(inputs["action_t"], [[0.25 + 0.075, 0.5 + 0.375]], rtol=1e-6)
    # Blinker in turn 1 arms, torque in turn 2 starts: turn 3 carries the pulse, once.
    pulses = np.array([call.inputs["desire"][0] for call in bench.executor.calls])
    assert np.argwhere(pulses).tolist() == [[3, 3]]
    states = [str(e.modelV2.meta.laneChangeState) for e in bench.received("modelV2")]
    assert states[:4] == ["off", "preLaneChange", "laneChangeStarting", "laneChangeStarting"]


@pytest.mark.parametrize(
    ("service", "fields", "message"),
    [
        ("carState", {"vEgo": float("nan")}, "carState.vEgo is nan; 12.0 is kept"),
        ("lateralDelay", {"lateralDelay": -0.075}, "lateralDelay is -0.07"),
        (
            "carParams",
            {"longitudinalActuatorDelay": 1e9},
            "ActuatorDelay is 1000000000.0; 0.15 is kept",
        ),
    ],
)
def test_implausible_inputs_are_counted_and_the_last_value_kept(
    service: str, fields: dict[str, float], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(fake_frames(2))
    bench.send("carState", vEgo=12.0)
    bench.send("lateralDelay", lateralDelay=0.3)
    bench.daemon.turn()
    before = bench.executor.calls[0].inputs["action_t"]
    bench.send(service, **fields)
    bench.daemon.turn()
    np.testing.assert_array_equal(bench.executor.calls[1].inputs["action_t"], before)
    assert bench.health.counts[Count.REJECTED_MESSAGES] == 1
    assert message in caplog.text
    assert all(np.isfinite(e.modelV2.action.desiredCurvature) for e in bench.received("modelV2"))


@pytest.mark.parametrize(
    ("device", "sensor", "rpy", "message"),
    [
        ("mici", "unknown", (0, 0, 0), "no camera intrinsics for device 'mici'"),
        ("tici", "ox03c10", (0, 0, 0), "frames are 1344x760 but .* 1928x1208"),
        ("mici", "os04c10", (0, float("nan"), 0), "not three finite numbers"),
        ("mici", "os04c10", (), "not three finite numbers"),
        ("mici", 9, (0, 0, 0), r"unknown\(9\)"),  # a sensor newer than the schema
    ],
)
def test_unusable_calibration_is_counted_and_never_believed(
    device: str,
    sensor: str | int,
    rpy: tuple[float, ...],
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(fake_frames(1, layout=OS_LAYOUT), width=1344, height=760)
    bench.calibrate(rpy, device, sensor)
    bench.daemon.turn()
    assert [e.valid for e in bench.received("modelV2")] == [False]
    assert bench.health.counts[Count.REJECTED_MESSAGES] == 1
    assert re.search(message, caplog.text)


def test_garbage_on_the_wire_is_counted() -> None:
    bench = Bench(fake_frames(1))
    bench.transport.publisher("carState").send(b"\xff" * 64)
    assert bench.daemon.turn()
    assert bench.health.rejected_on_wire == 1


def test_frame_age_counts_what_the_camera_did_meanwhile() -> None:
    bench = Bench(fake_frames(3))
    bench.send("narrowRoadCameraState", frameId=2)
    run(bench)
    assert [e.modelV2.frameAge for e in bench.received("modelV2")] == [2, 1, 0]


def test_execution_time_and_turn_times() -> None:
    bench = Bench(fake_frames(2))
    run(bench)
    events = bench.received("modelV2")
    assert events[0].modelV2.modelExecutionTime == pytest.approx(TURN_NS / 1e9)
    turns = bench.health.take_turns()
    assert [t.frame_id for t in turns] == [0, 1]
    assert turns[1].executed - turns[1].synced == TURN_NS
    assert turns[1].stages()["host"] == 0
    assert sum(turns[1].stages()[k] for k in ("upload", "warp", "model", "read")) == TURN_NS
    assert turns[1].received == turns[1].timestamp_eof == 120_000_000


def test_raw_predictions_only_when_asked() -> None:
    asking = Config(messages=MessagesConfig(raw_predictions=True))
    for config, expected in ((Config(), b""), (asking, noise(0).tobytes())):
        bench = Bench(fake_frames(1), config=config)
        run(bench)
        assert bench.received("modelV2")[0].modelV2.rawPredictions == expected


def test_number_of_frames_and_stop() -> None:
    bench = Bench(fake_frames(10))
    assert run(bench, 3) == 3
    stop = threading.Event()
    stop.set()
    assert bench.daemon.run(stop) == 0
    assert run(bench) == 7


def test_timeouts_answer_nothing_and_feed_no_watchdog() -> None:
    bench = Bench([None] * 30)
    assert run(bench) == 0
    assert bench.notifier.count("WATCHDOG") == 0
    assert bench.health.current(bench.clock.monotonic_ns()) == (
        State.STALLED,
        "no frame answered for 3.0 s",
    )


def test_first_frame_of_an_unknown_size_ends_the_run() -> None:
    bench = Bench(fake_frames(2, layout=packed_layout(32, 8)))
    with pytest.raises(ModeldError, match="frame 0 is 32x8, expected 16x8; build the artifact"):
        run(bench)


def test_unequal_cameras_end_the_run() -> None:
    bench = Bench(fake_frames(2), fake_frames(2, layout=packed_layout(32, 8)))
    with pytest.raises(ModeldError, match="frame 0 is 32x8, expected 16x8"):
        run(bench)


def test_a_later_frame_of_the_wrong_size_or_layout_is_passed_over() -> None:
    frames = [
        *fake_frames(2),
        fake_frame(2, layout=packed_layout(32, 8)),
        replace(fake_frame(3), data=fake_frame(3).data[:-1]),
        replace(fake_frame(4), layout=FrameLayout(16, 8, 8, 128)),
        replace(fake_frame(4), frame_id=1 << 32),
        replace(fake_frame(4), timestamp_eof=-1),
        fake_frame(5),
    ]
    bench = Bench(frames)
    assert run(bench) == 3
    assert [e.modelV2.frameId for e in bench.received("modelV2")] == [0, 1, 5]
    assert bench.health.counts[Count.REJECTED_FRAMES] == 5


def test_padded_frames_pass() -> None:
    bench = Bench(fake_frames(2, layout=venus_layout(16, 8)))
    assert run(bench) == 2


def test_artifact_that_does_not_drive_is_refused() -> None:
    contract = replace(driving_contract(), kind="generic", generation="yolo")
    with pytest.raises(ModeldError, match=r"model is 'generic' \(yolo\), not a driving network"):
        Bench(fake_frames(1), contract=contract)


def test_source_without_cameras_is_refused() -> None:
    with pytest.raises(ModeldError, match="neither a narrow nor a wide camera"):
        Bench(None, None)
