"""Recorded routes as devices: order, spans, gaps, rhythm, geometry."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from routes import PERIOD, START, event, write_route

from modeld.calibration import MEDMODEL, device_cameras, warp_matrix
from modeld.cameras.frame import EndOfStreamError, Frame
from modeld.cameras.nv12 import packed_layout
from modeld.clock import SystemClock
from modeld.config import Config
from modeld.errors import ModeldError
from modeld.fakes.clock import FakeClock
from modeld.fakes.executor import OUTPUT_SIZE, FakeExecutor, driving_contract
from modeld.messaging import decode_event
from modeld.replay.device import device_profile
from modeld.replay.log import LogWriter, read_messages
from modeld.replay.logged import LoggedDevice, MadeFrame, Span, camera_of
from modeld.replay.pace import ReplayClock
from modeld.replay.replay import Replay
from modeld.replay.resample import nv12_views
from modeld.replay.route import LoggedMessage
from modeld.replay.simulation import Recording
from modeld.replay.sources import open_source

LAYOUT = packed_layout(16, 8)
WHOLE = Span()


def message(member: str, time: int, **values: Any) -> LoggedMessage:
    data = event(member, time, **values)
    return LoggedMessage(data, decode_event(data))


def made(camera: str, number: int) -> MadeFrame:
    eof = START + number * PERIOD
    data = np.full(LAYOUT.bytes, number, np.uint8)
    return MadeFrame(camera, Frame(data, LAYOUT, 100 + number, eof - 20_000_000, eof))


def device(
    items: list[LoggedMessage | MadeFrame],
    two_cameras: bool = False,
    wide_only: bool = False,
    factor: float | None = None,
    clock: FakeClock | None = None,
    span: Span = WHOLE,
) -> LoggedDevice:
    profile = device_profile("1344x760", (0, 0, 0), 1.22, 0)
    recording = Recording(
        profile, LAYOUT, two_cameras, (0, 0, 16, 8), title="route", wide_only=wide_only
    )
    replay_clock = ReplayClock(clock or FakeClock())
    return LoggedDevice(
        recording, iter(items), replay_clock, factor, span, lambda: None, lambda: ()
    )


def ids(stream: Any) -> Iterator[int | None]:
    try:
        while True:
            frame = stream.receive(0.1)
            yield frame.frame_id if frame is not None else None
    except EndOfStreamError:
        return


def test_messages_before_a_frame_are_published_before_it_and_later_ones_are_not() -> None:
    source = device(
        [
            message("carState", START - 3, vEgo=1.0),
            message("carState", START - 2, vEgo=2.0),
            made("narrow", 0),
            message("carState", START + 1, vEgo=3.0),
            made("narrow", 1),
        ]
    )
    inbox = source.outlet.transport.inbox(("carState",), conflate=False)
    assert source.narrow is not None
    speeds = []
    for _ in range(2):
        source.narrow.receive(0.1)
        while (data := inbox.receive("carState")) is not None:
            speeds.append(decode_event(data).carState.vEgo)
        speeds.append(None)
    assert speeds == [1.0, 2.0, None, 3.0, None]


def test_the_clock_is_the_logs() -> None:
    source = device([made("narrow", 0), made("narrow", 1)])
    assert source.narrow is not None
    for number in range(2):
        frame = source.narrow.receive(0.1)
        assert frame is not None
        assert frame.timestamp_eof == source.clock.monotonic_ns() == START + number * PERIOD


def test_what_the_daemon_does_not_read_is_not_published() -> None:
    source = device([message("modelV2", START - 1, frameId=99), made("narrow", 0)])
    inbox = source.outlet.transport.inbox(("modelV2",))
    assert source.narrow is not None
    source.narrow.receive(0.1)
    assert inbox.receive("modelV2") is None


def test_frames_outside_the_span_are_skipped_but_not_their_messages() -> None:
    items: list[LoggedMessage | MadeFrame] = [message("deviceState", START - 9, started=True)]
    items += [made("narrow", number) for number in range(8)]
    source = device(items, span=Span(first=3, count=2))
    inbox = source.outlet.transport.inbox(("deviceState",))
    assert list(ids(source.narrow)) == [103, 104]
    assert inbox.receive("deviceState") is not None


def test_both_cameras_go_together() -> None:
    items: list[LoggedMessage | MadeFrame] = []
    for number in range(3):
        # Which camera's message comes first differs from frame to frame.
        order = ("narrow", "wide") if number % 2 else ("wide", "narrow")
        items += [made(camera, number) for camera in order]
    source = device(items, two_cameras=True)
    pairs = list(zip(ids(source.narrow), ids(source.wide), strict=True))
    assert pairs == [(100, 100), (101, 101), (102, 102)]


def test_a_gap_in_the_wide_video_is_no_endless_wait() -> None:
    items: list[LoggedMessage | MadeFrame] = [made("narrow", 0), made("wide", 0)]
    items += [made("narrow", number) for number in range(1, 6)]
    items += [made("narrow", 6), made("wide", 6)]
    source = device(items, two_cameras=True)
    assert source.narrow is not None
    assert source.wide is not None
    source.narrow.receive(0.1)
    assert next(ids(source.wide)) == 100
    source.narrow.receive(0.1)
    answers = [source.wide.receive(0.1) for _ in range(5)]
    assert answers[0] is None
    found = [frame.frame_id for frame in answers if frame is not None]
    assert found == [106]


def test_a_wide_only_route() -> None:
    source = device([made("wide", 0), made("wide", 1)], wide_only=True)
    assert source.narrow is None
    assert list(ids(source.wide)) == [100, 101]
    assert source.recording.camera.focal == 425.25


@pytest.mark.parametrize(("factor", "seconds"), [(1.0, 0.2), (4.0, 0.05)])
def test_frames_keep_the_logs_rhythm(factor: float, seconds: float) -> None:
    clock = FakeClock()
    source = device([made("narrow", n) for n in range(5)], factor=factor, clock=clock)
    begin = clock.monotonic_ns()
    assert list(ids(source.narrow)) == [100, 101, 102, 103, 104]
    assert (clock.monotonic_ns() - begin) / 1e9 == pytest.approx(seconds)


def test_frames_that_passed_meanwhile_are_skipped_in_real_time_only() -> None:
    for factor, wanted in ((1.0, [100, 103, 104]), (None, [100, 101, 102, 103, 104])):
        clock = FakeClock()
        source = device([made("narrow", n) for n in range(5)], factor=factor, clock=clock)
        found = []
        for frame_id in ids(source.narrow):
            found.append(frame_id)
            if frame_id == 100:
                clock.sleep(0.19)
        assert found == wanted


def test_the_mount_follows_the_logs_calibration() -> None:
    source = device(
        [
            message("extrinsicsCalibration", START - 1, rpyCalib=[0.0, 0.03, 0.01], height=[1.4]),
            made("narrow", 0),
            message("extrinsicsCalibration", START + 1, rpyCalib=[0.0, float("nan"), 0.0]),
            made("narrow", 1),
        ]
    )
    assert source.narrow is not None
    for _ in range(2):
        source.narrow.receive(0.1)
        profile = source.recording.profile
        assert profile.rpy == pytest.approx((0.0, 0.03, 0.01))
        assert profile.height == pytest.approx(1.4)


@pytest.mark.parametrize(
    ("size", "camera"),
    [((1928, 1208), "1928x1208"), ((526, 330), "1928x1208"), ((526, 298), "1344x760")],
)
def test_pictures_belong_to_the_geometry_of_their_shape(size: tuple[int, int], camera: str) -> None:
    assert camera_of(size) == camera


def test_a_route_from_its_files_through_the_daemon(tmp_path: Path) -> None:
    route = write_route(tmp_path)
    executor = FakeExecutor(
        lambda turn: np.random.default_rng(turn).standard_normal(OUTPUT_SIZE).astype(np.float32),
        driving_contract(1344, 760),
    )
    with closing(open_source(str(route), None, SystemClock(), None)) as source:
        greys, answers = [], []
        for turn in Replay(executor, source, Config()).turns():
            luma, _ = nv12_views(turn.frame.data, turn.frame.layout)
            greys.append(int(luma[380, 672]))
            answers.append((turn.answer.modelV2.frameId, turn.answer.modelV2.timestampEof))
            valid = turn.answer.valid
    assert greys == pytest.approx([40, 50, 60, 70], abs=2)  # what H.264 leaves of flat grey
    assert answers == [(100 + n, START + n * PERIOD + 20_000_000) for n in range(4)]
    assert valid
    wanted = warp_matrix((0.0, 0.01, 0.02), device_cameras("mici", "os04c10").narrow, MEDMODEL)
    np.testing.assert_allclose(executor.calls[-1].transforms[0], wanted, rtol=1e-6, atol=1e-3)


def test_a_message_that_is_not_sound_is_left_out(tmp_path: Path) -> None:
    route = write_route(tmp_path)
    records = list(read_messages(route / "rlog.zst"))
    sound = event("carState", START + 3, vEgo=1.0)
    # The same length, but its pointers lead nowhere.
    broken = sound[:24] + b"\xfc\xff\xff\x7f" + sound[28:]
    with LogWriter(route / "rlog.zst") as log:
        for record in (*records[:3], broken, *records[3:]):
            log.write(record)
    executor = FakeExecutor(
        lambda turn: np.random.default_rng(turn).standard_normal(OUTPUT_SIZE).astype(np.float32),
        driving_contract(1344, 760),
    )
    with closing(open_source(str(route), None, SystemClock(), None)) as source:
        turns = list(Replay(executor, source, Config()).turns())
    assert len(turns) == 4
    messages = [data for turn in turns for data in turn.messages]
    assert broken not in messages
    assert records[0] in messages


def test_a_route_without_frames_is_named(tmp_path: Path) -> None:
    route = write_route(tmp_path)
    with LogWriter(route / "rlog.zst") as log:
        log.write(event("carState", START, vEgo=1.0))
    with pytest.raises(ModeldError, match="no frame that its log tells of"):
        open_source(str(route), None, SystemClock(), None)
