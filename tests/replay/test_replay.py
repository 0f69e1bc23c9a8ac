"""Replays: the daemon's own answers, each frame once, the same every time."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import msgschema
from modeld.calibration import MEDMODEL, SBIGMODEL, device_cameras, warp_matrix
from modeld.clock import SystemClock
from modeld.config import Config
from modeld.errors import ModeldError
from modeld.fakes.executor import OUTPUT_SIZE, SLICES, FakeExecutor, driving_contract
from modeld.messaging import decode_event
from modeld.replay.log import LogWriter, read_events
from modeld.replay.replay import Replay, ReplayedTurn
from modeld.replay.sources import open_source

CAMERA = "1344x760"
GREYS = [40, 60, 80, 100, 120, 140]


def answer(turn: int) -> npt.NDArray[np.float32]:
    """An answer of its own for every turn, with the left lane line `turn` metres aside."""
    vector = np.random.default_rng(turn).standard_normal(OUTPUT_SIZE).astype(np.float32) * 0.1
    lines = vector[slice(*SLICES["lane_lines"])]
    lines[: 4 * 33 * 2].reshape(4, 33, 2)[1, :, 0] = turn
    return vector


def replay(clip: Path, **options: Any) -> tuple[FakeExecutor, list[ReplayedTurn], Replay]:
    executor = FakeExecutor(answer, driving_contract(1344, 760))
    source = open_source(str(clip), CAMERA, SystemClock(), None, **options)
    with closing(source):
        played = Replay(executor, source, Config())
        turns = list(played.turns())
    return executor, turns, played


def test_each_frame_is_answered_once_in_order(clip: Callable[..., Path]) -> None:
    executor, turns, _ = replay(clip(GREYS))
    assert [turn.answer.modelV2.frameId for turn in turns] == list(range(6))
    assert [turn.answer.modelV2.frameIdExtra for turn in turns] == list(range(6))
    assert [turn.answer.modelV2.laneLines[1].y[0] for turn in turns] == list(range(6))
    assert [call.narrow.frame_id for call in executor.calls] == list(range(6))
    for turn in turns:
        services = [decode_event(data).which() for data in turn.messages]
        for service in ("modelV2", "drivingModelData", "cameraOdometry"):
            assert services.count(service) == 1


def test_answers_are_valid_from_the_first_frame(clip: Callable[..., Path]) -> None:
    executor, turns, _ = replay(clip(GREYS))
    assert all(turn.answer.valid for turn in turns)
    # The sidecar's mount reached the warp: one camera, looked at twice.
    camera = device_cameras("mici", "os04c10").narrow
    wanted = [warp_matrix((0.0, 0.01, -0.02), camera, model) for model in (MEDMODEL, SBIGMODEL)]
    for call in executor.calls:
        np.testing.assert_allclose(call.transforms, wanted, rtol=1e-6, atol=1e-3)


def test_answers_carry_the_recordings_times(clip: Callable[..., Path]) -> None:
    _, turns, _ = replay(clip(GREYS))
    eofs = [turn.answer.modelV2.timestampEof for turn in turns]
    assert eofs == [50_000_000 * (n + 1) + 20_000_000 for n in range(6)]
    for turn in turns:
        assert turn.times is not None
        assert turn.times.frame_id == turn.frame.frame_id
        assert turn.answer.logMonoTime >= turn.answer.modelV2.timestampEof
        assert turn.answer.modelV2.frameDropPerc == 0


def without_times(data: bytes) -> bytes:
    event = msgschema.load().Event.from_bytes(data)
    with event as reader:
        builder = reader.as_builder()
    builder.logMonoTime = 0
    content = getattr(builder, builder.which())
    for field in ("frameDropPerc", "modelExecutionTime"):
        if field in content.schema.fields:
            setattr(content, field, 0)
    return bytes(builder.to_bytes())


def test_two_replays_are_equal_byte_for_byte_apart_from_times(clip: Callable[..., Path]) -> None:
    path = clip(GREYS)
    first, second = (
        [without_times(data) for turn in replay(path)[1] for data in turn.messages]
        for _ in range(2)
    )
    assert len(first) > 6 * 12
    assert first == second


def test_making_frames_ahead_changes_nothing(clip: Callable[..., Path]) -> None:
    path = clip(GREYS)
    one, ahead = replay(path)[0], replay(path, ahead=True)[0]
    assert [call.narrow.frame_id for call in one.calls] == [
        call.narrow.frame_id for call in ahead.calls
    ]
    for a, b in zip(one.calls, ahead.calls, strict=True):
        np.testing.assert_array_equal(a.transforms, b.transforms)


def test_a_part_of_the_recording(clip: Callable[..., Path]) -> None:
    _, turns, played = replay(clip(GREYS), first=2, count=3)
    assert [turn.answer.modelV2.frameId for turn in turns] == [2, 3, 4]
    assert all(turn.answer.valid for turn in turns)
    assert played.health.counts["drops"] == 0


def test_the_log_holds_marks_inputs_and_answers_in_the_order_they_happened(
    clip: Callable[..., Path], tmp_path: Path
) -> None:
    path = tmp_path / "log.zst"
    _, turns, played = replay(clip(GREYS))
    with LogWriter(path) as log:
        for data in played.opening():
            log.write(data)
        for turn in turns:
            for data in turn.messages:
                log.write(data)
        for data in played.closing():
            log.write(data)
    events = list(read_events(path))
    kinds = [event.which() for event in events]
    assert kinds[:2] == ["initData", "sentinel"]
    assert kinds[-1] == "sentinel"
    assert str(events[1].sentinel.type) == "startOfRoute"
    assert str(events[-1].sentinel.type) == "endOfRoute"
    assert str(events[0].initData.deviceType) == "mici"
    answered = ("modelV2", "drivingModelData", "cameraOdometry")
    times = [e.logMonoTime for e in events[2:-1] if e.which() not in answered]
    assert times == sorted(times)
    # Each frame is announced, then answered, before the next one is announced.
    story = [kind for kind in kinds if kind in ("narrowRoadCameraState", *answered)]
    assert story == ["narrowRoadCameraState", *answered] * 6
    first = kinds.index("modelV2")
    assert {"extrinsicsCalibration", "deviceState", "narrowRoadCameraState"} <= set(kinds[:first])


def test_two_cameras_are_paired() -> None:
    executor = FakeExecutor(answer, driving_contract(1164, 874))
    source = open_source("road:5", CAMERA, SystemClock(), None, count=1)
    with closing(source), pytest.raises(ModeldError, match="1344x760"):
        list(Replay(executor, source, Config()).turns())
    executor = FakeExecutor(answer, driving_contract(1344, 760))
    source = open_source("road:5", CAMERA, SystemClock(), None, count=2)
    with closing(source):
        turns = list(Replay(executor, source, Config()).turns())
    assert [turn.answer.valid for turn in turns] == [True, True]
    cameras = device_cameras("mici", "os04c10")
    assert cameras.wide is not None
    wanted = warp_matrix((0.0, 0.02, 0.0), cameras.wide, SBIGMODEL)
    np.testing.assert_allclose(executor.calls[1].transforms[1], wanted, rtol=1e-6, atol=1e-3)
    assert not np.array_equal(executor.calls[0].narrow.data, executor.calls[0].wide.data)


def test_an_unsound_answer_has_no_times_and_is_not_valid(clip: Callable[..., Path]) -> None:
    def poisoned(turn: int) -> npt.NDArray[np.float32]:
        vector = answer(turn)
        if turn == 2:
            vector[5] = np.nan
        return vector

    executor = FakeExecutor(poisoned, driving_contract(1344, 760))
    source = open_source(str(clip(GREYS)), CAMERA, SystemClock(), None)
    with closing(source):
        turns = list(Replay(executor, source, Config()).turns())
    assert [turn.answer.valid for turn in turns] == [True, True, False, True, True, True]
    assert [turn.times is None for turn in turns] == [False, False, True, False, False, False]


@pytest.mark.parametrize(
    ("name", "count"),
    [("lanelines/solidWhiteRight.mp4", 221), ("highway/test_video.mp4", 38)],
)
def test_every_frame_of_a_real_clip_is_answered_once(
    data_path: Callable[[str], Path], name: str, count: int
) -> None:
    _, turns, played = replay(data_path(f"video/{name}"))
    assert [turn.answer.modelV2.frameId for turn in turns] == list(range(count))
    assert all(turn.answer.valid for turn in turns)
    assert played.health.counts["drops"] == 0
