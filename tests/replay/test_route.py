"""Routes: pictures and messages brought back into the order in which they happened."""

from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
import pytest

import msgschema
from modeld.errors import ModeldError
from modeld.replay.encoding import CAMERAS
from modeld.replay.log import LogWriter
from modeld.replay.route import LoggedFrame, LoggedMessage, Route, open_route

SIZE = (128, 96)
PERIOD_NS = 50_000_000
READOUT_NS = 20_000_000
# Encoded this many frames after it was announced.
ENCODER_LAG = 2
NARROW, WIDE = CAMERAS


def shade(camera: str, frame_id: int) -> int:
    """The luma of a frame's picture: different for neighbours and cameras, within 16 to 235."""
    return 20 + 5 * (frame_id % 40) + (2 if camera == "wide" else 0)


def encode(path: Path, codec: str, shades: list[int]) -> None:
    with av.open(str(path), "w", format="hevc" if codec == "libx265" else "mpegts") as container:
        stream = container.add_stream(codec, rate=20)
        stream.width, stream.height = SIZE
        stream.pix_fmt = "yuv420p"
        # With reordered pictures, as the order in the file is not the order in time.
        quiet = {"x265-params": "log-level=none:qp=4:bframes=3"} if codec == "libx265" else {}
        stream.options = quiet or {"qp": "4", "bf": "2"}
        for value in shades:
            frame = av.VideoFrame(*SIZE, "yuv420p")
            for plane, level in zip(frame.planes, (value, 128, 128), strict=True):
                plane.update(bytes([level]) * (plane.line_size * plane.height))
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def event(member: str, time_ns: int, **values: object) -> bytes:
    built = msgschema.load().Event.new_message(logMonoTime=time_ns, valid=True)
    content = built.init(member)
    for name, value in values.items():
        setattr(content, name, value)
    data: bytes = built.to_bytes()
    return data


@dataclass
class Recorder:
    """Writes a route of `count` frames for each segment, frame ids from 100 on."""

    folder: Path
    count: int = 12
    segments: int = 2
    cameras: tuple[str, ...] = ("narrow",)
    log: str = "rlog.zst"
    qcamera: bool = False
    announce_every: int = 1

    def write(self) -> Path:
        logs: dict[int, list[bytes]] = {number: [] for number in range(self.segments)}
        total = self.count * self.segments
        for tick in range(total + ENCODER_LAG):
            now = (tick + 1) * PERIOD_NS
            number = min(tick // self.count, self.segments - 1)
            logs[number].append(event("carState", now - 1, vEgo=float(tick)))
            for camera in self.cameras:
                if tick < total and tick % self.announce_every == 0:
                    logs[number].append(self.state(camera, tick, now))
                if tick >= ENCODER_LAG:
                    index = self.index(camera, tick - ENCODER_LAG, now)
                    logs[(tick - ENCODER_LAG) // self.count].append(index)
        for number, messages in logs.items():
            self.segment(number, messages)
        return self.folder

    def state(self, camera: str, tick: int, now: int) -> bytes:
        member = (NARROW if camera == "narrow" else WIDE).state
        return event(
            member, now, frameId=100 + tick, timestampSof=now - READOUT_NS, timestampEof=now
        )

    def index(self, camera: str, tick: int, now: int) -> bytes:
        member = "narrowRoadEncodeIdx" if camera == "narrow" else "wideRoadEncodeIdx"
        eof = (tick + 1) * PERIOD_NS
        return event(
            member,
            now + 1,
            frameId=100 + tick,
            encodeId=tick,
            segmentNum=tick // self.count,
            segmentId=tick % self.count,
            timestampSof=eof - READOUT_NS,
            timestampEof=eof,
        )

    def segment(self, number: int, messages: list[bytes]) -> None:
        folder = self.folder / f"0000002b--2686b5a2d0--{number}"
        folder.mkdir(parents=True)
        with LogWriter(folder / self.log) as log:
            for message in messages:
                log.write(message)
        first = 100 + number * self.count
        for camera in self.cameras:
            shades = [shade(camera, first + place) for place in range(self.count)]
            if self.qcamera:
                encode(folder / "qcamera.ts", "libx264", shades)
            else:
                name = "fcamera.hevc" if camera == "narrow" else "ecamera.hevc"
                encode(folder / name, "libx265", shades)


def frames(route: Route, camera: str = "narrow") -> list[LoggedFrame]:
    return [f for f in route.play() if isinstance(f, LoggedFrame) and f.camera == camera]


def assert_is(frame: LoggedFrame) -> None:
    """The picture is the one of that frame, and times are the camera's."""
    assert frame.picture.size == SIZE
    assert abs(np.mean(frame.picture.luma) - shade(frame.camera, frame.frame_id)) < 1
    assert frame.timestamp_eof == (frame.frame_id - 99) * PERIOD_NS
    assert frame.timestamp_eof - frame.timestamp_sof == READOUT_NS


def test_every_frame_with_its_picture_across_segments(tmp_path: Path) -> None:
    route = open_route(Recorder(tmp_path).write())
    assert route.name == "0000002b--2686b5a2d0"
    assert route.cameras == ("narrow",)
    found = frames(route)
    assert [frame.frame_id for frame in found] == list(range(100, 124))
    for frame in found:
        assert_is(frame)
    assert route.counters.frames_without_picture == 0


def test_a_frame_stands_right_after_its_cameras_message(tmp_path: Path) -> None:
    route = open_route(Recorder(tmp_path, segments=1).write())
    last: LoggedMessage | LoggedFrame | None = None
    for item in route.play():
        if isinstance(item, LoggedFrame):
            assert isinstance(last, LoggedMessage)
            assert last.event.which() == NARROW.state
            assert last.event.narrowRoadCameraState.frameId == item.frame_id
        last = item


def test_no_message_is_lost_or_moved(tmp_path: Path) -> None:
    route = open_route(Recorder(tmp_path).write())
    messages = [item for item in route.play() if isinstance(item, LoggedMessage)]
    speeds = [m.event.carState.vEgo for m in messages if m.event.which() == "carState"]
    assert speeds == [float(tick) for tick in range(24 + ENCODER_LAG)]
    assert len(messages) == 24 * 3 + ENCODER_LAG


def test_two_cameras(tmp_path: Path) -> None:
    route = open_route(Recorder(tmp_path, cameras=("narrow", "wide"), segments=1).write())
    assert route.cameras == ("narrow", "wide")
    found = [item for item in route.play() if isinstance(item, LoggedFrame)]
    pairs = list(zip(found[::2], found[1::2], strict=True))
    assert [(n.camera, w.camera) for n, w in pairs] == [("narrow", "wide")] * 12
    for narrow, wide in pairs:
        assert narrow.frame_id == wide.frame_id
        assert_is(narrow)
        assert_is(wide)


def test_the_small_video_stands_in_with_the_large_ones_indices(tmp_path: Path) -> None:
    route = open_route(Recorder(tmp_path, qcamera=True, segments=1).write())
    found = frames(route)
    assert [frame.frame_id for frame in found] == list(range(100, 112))
    for frame in found:
        assert_is(frame)


def test_a_thinned_log_gives_frames_at_their_indices(tmp_path: Path) -> None:
    route = open_route(Recorder(tmp_path, log="qlog.bz2", announce_every=6, segments=1).write())
    last: LoggedMessage | LoggedFrame | None = None
    found = []
    for item in route.play():
        if isinstance(item, LoggedFrame):
            assert isinstance(last, LoggedMessage)
            assert last.event.which() == "narrowRoadEncodeIdx"
            assert_is(item)
            found.append(item.frame_id)
        last = item
    assert found == list(range(100, 112))


def test_ways_to_name_a_route(tmp_path: Path) -> None:
    folder = Recorder(tmp_path).write()
    for path in (folder, folder / "0000002b--2686b5a2d0"):
        assert [segment.number for segment in open_route(path).segments] == [0, 1]
    one = open_route(folder / "0000002b--2686b5a2d0--1")
    assert [segment.number for segment in one.segments] == [1]
    # Its last message of the neighbour's frames is here, their pictures are not.
    assert [frame.frame_id for frame in frames(one)] == list(range(112, 124))


def test_segments_are_in_order_of_number_and_gaps_are_told(tmp_path: Path) -> None:
    for number in (10, 2, 4):
        Recorder(tmp_path, count=4).segment(number, [])
    route = open_route(tmp_path)
    assert [segment.number for segment in route.segments] == [2, 4, 10]
    assert route.counters.missing_segments == (3, 5, 6, 7, 8, 9)


def test_a_full_log_is_preferred_to_a_thinned_one(tmp_path: Path) -> None:
    Recorder(tmp_path, count=4, log="qlog.zst").segment(0, [])
    full = tmp_path / "0000002b--2686b5a2d0--0" / "rlog"
    full.touch()  # nothing came into it
    assert [segment.log.name for segment in open_route(tmp_path).segments] == ["qlog.zst"]
    full.write_bytes(event("carState", 1))
    assert [segment.log.name for segment in open_route(tmp_path).segments] == ["rlog"]


def test_a_cut_video_costs_its_pictures_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Recorder(tmp_path).write()
    video = folder / "0000002b--2686b5a2d0--0" / "fcamera.hevc"
    content = video.read_bytes()
    # Flat pictures take a few bytes each, after long headers.
    video.write_bytes(content[:-50])
    route = open_route(folder)
    found = frames(route)
    here = [frame for frame in found if frame.frame_id < 112]
    assert 0 < len(here) < 12
    assert [frame.frame_id for frame in found if frame.frame_id >= 112] == list(range(112, 124))
    assert route.counters.frames_without_picture == 12 - len(here)


def test_a_video_that_is_none_costs_its_pictures_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Recorder(tmp_path).write()
    (folder / "0000002b--2686b5a2d0--0" / "fcamera.hevc").write_bytes(b"no video" * 100)
    route = open_route(folder)
    assert [frame.frame_id for frame in frames(route)] == list(range(112, 124))
    assert route.counters.frames_without_picture == 12
    assert "fcamera.hevc" in caplog.text


def test_indices_that_name_no_picture_are_counted(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, segments=1)
    times = [PERIOD_NS * tick for tick in (1, 2, 3)]
    messages = [recorder.state("narrow", tick, now) for tick, now in enumerate(times)]
    beyond = event("narrowRoadEncodeIdx", 1, frameId=100, segmentNum=0, segmentId=99)
    elsewhere = event("narrowRoadEncodeIdx", 1, frameId=101, segmentNum=7, segmentId=0)
    recorder.segment(0, [beyond, elsewhere, *messages])
    route = open_route(tmp_path)
    assert frames(route) == []
    assert route.counters.frames_without_picture == 3


def test_a_broken_index_is_left_out(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, segments=1)
    good = [recorder.index("narrow", 0, 1), recorder.state("narrow", 0, PERIOD_NS)]
    broken = bytearray(recorder.index("narrow", 1, 1))
    broken[36:40] = b"\xff\xff\x00\x00"  # the struct claims far more words than there are
    recorder.segment(0, [good[0], bytes(broken), good[1]])
    assert [frame.frame_id for frame in frames(open_route(tmp_path))] == [100]


def test_what_is_no_route_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match=r"has no segments; give a NAME--N directory"):
        open_route(tmp_path)
    with pytest.raises(ModeldError, match=r"nowhere has no segments"):
        open_route(tmp_path / "nowhere")
    segment = tmp_path / "0000002b--2686b5a2d0--0"
    segment.mkdir()
    with pytest.raises(ModeldError, match=r"has no rlog or qlog; put it beside"):
        open_route(tmp_path)
    (segment / "rlog").touch()
    with pytest.raises(ModeldError, match=r"has no rlog or qlog; put it beside"):
        open_route(tmp_path)
    (segment / "rlog").write_bytes(event("carState", 1))
    with pytest.raises(ModeldError, match=r"has a log but no frames"):
        open_route(tmp_path)
    (tmp_path / "0000002c--0123456789--0").mkdir()
    with pytest.raises(ModeldError, match=r"holds 2 routes \(0000002b--2686b5a2d0, 0000002c"):
        open_route(tmp_path)
