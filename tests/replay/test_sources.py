"""Sources by their specification: ids, times, geometry, messages, and what cannot be opened."""

from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from modeld.cameras.frame import EndOfStreamError, Frame
from modeld.cameras.nv12 import packed_layout
from modeld.errors import ModeldError
from modeld.fakes.clock import FakeClock
from modeld.messaging import decode_event
from modeld.replay.device import device_profile
from modeld.replay.pace import RealTime
from modeld.replay.reel import Moment, Reel
from modeld.replay.resample import nv12_views
from modeld.replay.simulation import Recording, SimulatedDevice
from modeld.replay.sources import open_source

CAMERA = "1344x760"
LAYOUT = packed_layout(16, 8)
PERIOD = 50_000_000


def lumas(frames: list[Frame]) -> list[int]:
    """The grey of flat frames, read in the middle."""
    return [int(nv12_views(frame.data, frame.layout)[0][380, 672]) for frame in frames]


def play(source: object) -> list[Frame]:
    """All narrow frames, each with a copy of its data."""
    frames = []
    try:
        while (frame := source.narrow.receive(0.1)) is not None:  # type: ignore[attr-defined]
            copied = frame.data.copy()
            frames.append(
                Frame(
                    copied, frame.layout, frame.frame_id, frame.timestamp_sof, frame.timestamp_eof
                )
            )
    except EndOfStreamError:
        return frames
    raise AssertionError("the recording stopped without ending")


def test_a_clip_gives_each_picture_once_in_the_cameras_geometry(clip: Callable[..., Path]) -> None:
    greys = [40, 60, 80, 100, 120]
    with closing(open_source(str(clip(greys)), CAMERA, FakeClock(), None)) as source:
        frames = play(source)
    assert lumas(frames) == greys
    assert [frame.frame_id for frame in frames] == [0, 1, 2, 3, 4]
    assert [frame.timestamp_sof for frame in frames] == [PERIOD * n for n in range(1, 6)]
    layout = frames[0].layout
    assert (layout.width, layout.height, layout.stride, layout.uv_offset) == (
        1344,
        760,
        1408,
        1081344,  # the Venus layout of that size
    )
    assert source.wide is None
    assert source.recording.total == 5


def test_ids_say_the_place_in_the_recording(clip: Callable[..., Path]) -> None:
    path = str(clip([40, 60, 80, 100, 120]))
    with closing(open_source(path, CAMERA, FakeClock(), None, first=1, count=3)) as source:
        frames = play(source)
    assert [frame.frame_id for frame in frames] == [1, 2, 3]
    assert lumas(frames) == [60, 80, 100]
    assert source.recording.total == 3


def test_the_mount_and_speed_of_the_sidecar_are_published_before_the_frame(
    clip: Callable[..., Path],
) -> None:
    with closing(open_source(str(clip([50, 60])), CAMERA, FakeClock(), None)) as source:
        inbox = source.outlet.transport.inbox(source.services)
        frame = source.narrow.receive(0.1)
        assert frame is not None
        events = {}
        for service in source.services:
            if (data := inbox.receive(service)) is not None:
                events[service] = getattr(decode_event(data), service)
    assert list(events["extrinsicsCalibration"].rpyCalib) == pytest.approx([0, 0.01, -0.02])
    assert list(events["extrinsicsCalibration"].height) == pytest.approx([1.3])
    assert events["carState"].vEgo == 15.0
    assert events["narrowRoadCameraState"].frameId == frame.frame_id
    assert "wideRoadCameraState" not in events


def test_a_camera_does_not_wait_for_a_slow_reader(clip: Callable[..., Path]) -> None:
    clock = FakeClock()
    greys = list(range(40, 60))
    with closing(open_source(str(clip(greys)), CAMERA, clock, 20.0)) as source:
        taken = []
        try:
            while True:
                frame = source.narrow.receive(0.1)
                assert frame is not None
                taken.append(frame.frame_id)
                assert lumas([frame]) == [greys[frame.frame_id]]
                if len(taken) == 3:
                    clock.sleep(0.26)  # five periods and a bit: frames 3 to 6 are skipped
        except EndOfStreamError:
            pass
    assert taken == [0, 1, 2, *range(7, 20)]


class SlowReel(Reel):
    """The first moment takes ten seconds to make."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(Moment(np.zeros(LAYOUT.bytes, np.uint8)) for _ in range(9))
        self._clock = clock

    def at(self, number: int) -> Moment:
        if self._current is None:
            self._clock.sleep(10.0)
        return super().at(number)


def test_cameras_begin_when_the_first_frame_is_made() -> None:
    clock = FakeClock()
    profile = device_profile(CAMERA, (0, 0, 0), 1.2, 0)
    recording = Recording(profile, LAYOUT, two_cameras=False, visible=(0, 0, 16, 8))
    source = SimulatedDevice(recording, SlowReel(clock), RealTime(clock, 20, 0), clock)
    assert [frame.frame_id for frame in play(source)] == list(range(9))
    assert source.remarks() == ()


def test_a_loop_never_ends(clip: Callable[..., Path]) -> None:
    path = str(clip([40, 50, 60]))
    with closing(open_source(f"loop:{path}", CAMERA, FakeClock(), None)) as source:
        frames = [source.narrow.receive(0.1) for _ in range(7)]
        assert [frame.frame_id for frame in frames if frame] == list(range(7))
        assert lumas([frame for frame in frames if frame]) == [40, 50, 60, 40, 50, 60, 40]
    assert source.recording.total is None


@pytest.mark.parametrize("ahead", [False, True])
def test_a_loop_ends_where_it_is_told_to(clip: Callable[..., Path], ahead: bool) -> None:
    path = f"loop:{clip([40, 50, 60])}"
    with closing(open_source(path, CAMERA, FakeClock(), None, count=5, ahead=ahead)) as source:
        found = [source.narrow.receive(0.1) for _ in range(5)]
        assert lumas([frame for frame in found if frame]) == [40, 50, 60, 40, 50]
        with pytest.raises(EndOfStreamError):
            source.narrow.receive(0.1)
    assert source.recording.total == 5


def test_the_road_has_two_cameras_its_own_speed_and_truth() -> None:
    with closing(open_source("road:3", "1344x760", FakeClock(), None, count=2)) as source:
        narrow, wide = source.narrow, source.wide
        assert wide is not None
        inbox = source.outlet.transport.inbox(("carState",))
        frame, beside = narrow.receive(0.1), wide.receive(0.1)
        assert frame is not None
        assert beside is not None
        assert (frame.frame_id, frame.timestamp_sof) == (beside.frame_id, beside.timestamp_sof)
        assert not np.array_equal(frame.data, beside.data)
        data = inbox.receive("carState")
        assert data is not None
        assert decode_event(data).carState.vEgo > 0
        assert all(line.shape[1] == 3 for line in source.truth)


def test_one_seed_is_one_road() -> None:
    def first(spec: str) -> bytes:
        with closing(open_source(spec, "1164x874", FakeClock(), None)) as source:
            frame = source.narrow.receive(0.1)
            assert frame is not None
            return frame.data.tobytes()

    assert first("road") == first("road:0")
    assert first("road:0") != first("road:1")


@pytest.mark.parametrize(
    ("spec", "camera", "named"),
    [
        ("absent.mp4", CAMERA, r"absent\.mp4 does not exist"),
        ("road:x", CAMERA, "the seed 'x'"),
        ("road", "640x480", "no known device has 640x480"),
    ],
)
def test_what_cannot_be_opened_is_named(spec: str, camera: str, named: str) -> None:
    with pytest.raises(ModeldError, match=named) as caught:
        open_source(spec, camera, FakeClock(), None)
    assert "\n" not in str(caught.value)


def test_a_clip_without_sidecar_is_named(tmp_path: Path, flat_clip: Callable[..., Path]) -> None:
    with pytest.raises(ModeldError, match=r"flat\.mkv has no sidecar"):
        open_source(str(flat_clip((50, 128, 128))), CAMERA, FakeClock(), None)


def test_pictures_of_another_size_than_the_sidecars_are_named(clip: Callable[..., Path]) -> None:
    path = clip([50])
    sidecar = path.with_suffix(".toml")
    sidecar.write_text(sidecar.read_text().replace("[64, 48]", "[128, 96]"))
    source = open_source(str(path), CAMERA, FakeClock(), None)
    with pytest.raises(ModeldError, match="picture is 64x48, expected 128x96"):
        source.narrow.receive(0.1)


def test_a_camera_that_sees_nothing_of_the_clip_is_named(clip: Callable[..., Path]) -> None:
    path = clip([50])
    sidecar = path.with_suffix(".toml")
    sidecar.write_text(sidecar.read_text().replace("50.0", "50.0\ncenter = [9000.0, 24.0]"))
    with pytest.raises(ModeldError, match="see no common part"):
        open_source(str(path), CAMERA, FakeClock(), None)


def test_real_clips_fill_the_frame_they_are_drawn_into(data_path: Callable[[str], Path]) -> None:
    path = data_path("video/highway/test_video.mp4")
    with closing(open_source(str(path), CAMERA, FakeClock(), None)) as source:
        left, top, right, bottom = source.recording.visible
        assert source.recording.total == 38
        frames = [source.narrow.receive(0.1) for _ in islice(range(3), 3)]
    assert (left, top) == (0, 0)
    assert right > 1300
    assert bottom > 700
    # The lane ahead: asphalt is dark, the sky above it bright.
    luma, _ = nv12_views(frames[-1].data, frames[-1].layout)
    assert luma[560:600, 600:700].mean() < 90 < luma[20:100, 600:700].mean()
