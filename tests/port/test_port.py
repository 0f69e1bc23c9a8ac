"""What every board must do alike, so that nobody who reads its messages sees a difference."""

import time
from pathlib import Path

import numpy as np
import pytest
from ports import Drive, FakeBoard, Pair, Port, answer, picture, pictures
from toy_driver import write_driver

import msgschema
from modeld.cameras.frame import EndOfStreamError, FrameLayout, FrameStream
from modeld.cameras.nv12 import packed_layout, venus_layout
from modeld.counts import Count
from modeld.daemon import PUBLISHED
from modeld.health import State, fill_health
from modeld.messaging import decode_event

WIDTH, HEIGHT = 64, 32
LAYOUTS = {"packed": packed_layout(WIDTH, HEIGHT), "padded": venus_layout(WIDTH, HEIGHT)}
FULL = venus_layout(1344, 760)
EYES = np.stack([np.eye(3, dtype=np.float32)] * 2)
# Lengths of the messages in bytes, which change only with the schema or what is filled in.
SIZES = {"modelV2": 7880, "drivingModelData": 232, "cameraOdometry": 248}


@pytest.fixture(params=LAYOUTS, ids=str)
def layout(request: pytest.FixtureRequest) -> FrameLayout:
    return LAYOUTS[request.param]


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    write_driver(tmp_path / "artifact", WIDTH, HEIGHT)
    return tmp_path / "artifact"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cameras").mkdir()
    return tmp_path / "cameras"


def small_inputs() -> dict[str, np.ndarray]:
    return {
        "desire": np.zeros((1, 8), np.float32),
        "traffic_convention": np.zeros((1, 2), np.float32),
        "action_t": np.zeros((1, 2), np.float32),
    }


def drive(port: Port, pairs: list[Pair], artifact: Path, folder: Path) -> Drive:
    with port.cameras(pairs, folder) as source:
        driven = Drive(source, port.executor(artifact))
        assert driven.run() == len(pairs)
    return driven


def test_pictures_come_whole_and_in_order(port: Port, layout: FrameLayout, folder: Path) -> None:
    pairs = pictures(12, layout, first=5)
    with port.cameras(pairs, folder) as source:
        for expected in pairs:
            for stream, wanted in zip((source.narrow, source.wide), expected, strict=True):
                assert stream is not None
                frame = stream.receive(10)
                assert frame is not None
                assert frame.layout == layout
                assert (frame.data.dtype, frame.data.ndim) == (np.uint8, 1)
                assert frame.frame_id == wanted.frame_id
                # Exactly what the camera said: drops and odometry are computed from these.
                assert frame.timestamp_sof == wanted.timestamp_sof
                assert frame.timestamp_eof == wanted.timestamp_eof
                np.testing.assert_array_equal(frame.data[: layout.bytes], wanted.data)
        assert source.narrow is not None
        assert nothing_more(source.narrow)


def nothing_more(stream: FrameStream) -> bool:
    try:
        return stream.receive(0) is None
    except EndOfStreamError:
        return True


def test_executor_sees_the_picture_and_its_layout(
    port: Port, layout: FrameLayout, artifact: Path
) -> None:
    executor = port.executor(artifact)
    assert executor.contract.kind == "driving"
    assert [camera.name for camera in executor.contract.cameras] == [f"{WIDTH}x{HEIGHT}"]
    kept = []
    for number in range(6):
        narrow, wide = picture(number, 0, layout), picture(number, 1, layout)
        found = executor.run_frame(narrow, wide, EYES, small_inputs())
        stages = (found.upload_ns, found.warp_ns, found.model_ns, found.read_ns)
        assert all(isinstance(stage, int) and stage >= 0 for stage in stages)
        kept.append((found.outputs["outputs"], answer(narrow)))
    # Compared at the end: outputs must not change under whoever holds them.
    for outputs, expected in kept:
        np.testing.assert_array_equal(outputs, expected, strict=True)


def test_a_buffer_that_the_camera_fills_again_is_read_again(port: Port, artifact: Path) -> None:
    executor, layout = port.executor(artifact), LAYOUTS["packed"]
    memory = np.zeros(layout.bytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    frame = picture(0, 0, layout)
    shared = type(frame)(memory[start:][: layout.bytes], layout, 0, 1, 2)
    for number in range(5):
        shared.data[:] = picture(number, 0, layout).data
        found = executor.run_frame(shared, shared, EYES, small_inputs())
        np.testing.assert_array_equal(found.outputs["outputs"], answer(shared))


def test_reset_gives_the_first_answer_again(port: Port, artifact: Path) -> None:
    executor, layout = port.executor(artifact), LAYOUTS["packed"]
    narrow, wide = picture(1, 0, layout), picture(1, 1, layout)
    first = executor.run_frame(narrow, wide, EYES, small_inputs()).outputs["outputs"]
    executor.run_frame(wide, narrow, EYES, small_inputs())
    executor.reset()
    again = executor.run_frame(narrow, wide, EYES, small_inputs()).outputs["outputs"]
    np.testing.assert_array_equal(first, again)


def test_messages_are_those_of_the_fakes_byte_for_byte(
    port: Port, layout: FrameLayout, artifact: Path, folder: Path
) -> None:
    pairs = pictures(8, layout)
    found = drive(port, pairs, artifact, folder).messages()
    expected = drive(FakeBoard(), pairs, artifact, folder).messages()
    assert found.keys() == set(PUBLISHED)
    assert {service: {len(data) for data in events} for service, events in found.items()} == {
        service: {size} for service, size in SIZES.items()
    }
    assert found == expected
    ids = [decode_event(data).modelV2.frameId for data in found["modelV2"]]
    assert ids == list(range(8))


def test_health_is_that_of_the_fakes(port: Port, artifact: Path, folder: Path) -> None:
    driven = drive(port, pictures(8, LAYOUTS["packed"]), artifact, folder)
    assert driven.health.counts[Count.FRAMES] == 8
    faults = set(driven.health.counts) - {Count.FRAMES}
    assert {count: driven.health.counts[count] for count in faults} == dict.fromkeys(faults, 0)
    assert driven.notifier.count("WATCHDOG") == 8
    assert driven.health.current(driven.clock.monotonic_ns())[0] is State.RUNNING
    turns = driven.health.take_turns()
    event = msgschema.load().Event.new_message()
    message = event.init("modeldHealth")
    fill_health(message, driven.health, turns, driven.clock.monotonic_ns())
    assert str(message.state) == "running"
    assert [turn.frameId for turn in message.turns] == list(range(8))
    assert all(min(turn.stages().values()) >= 0 for turn in turns)


def test_a_turn_with_whole_pictures_is_within_the_budget(port: Port, tmp_path: Path) -> None:
    """Of a network that computes nothing: what the board itself takes of each turn."""
    write_driver(tmp_path / "full", FULL.width, FULL.height)
    executor = port.executor(tmp_path / "full")
    narrow, wide = picture(0, 0, FULL), picture(0, 1, FULL)
    elapsed = []
    for _ in range(10):
        start = time.perf_counter_ns()
        executor.run_frame(narrow, wide, EYES, small_inputs())
        elapsed.append(time.perf_counter_ns() - start)
    # The best of ten: a busy machine makes some of them slow, never all of them fast.
    assert min(elapsed) <= port.budget_ns
