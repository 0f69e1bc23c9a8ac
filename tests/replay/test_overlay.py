"""What is drawn lies where the projection says; pictures keep colours; movies appear whole."""

from contextlib import closing
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest

from modeld.calibration import Intrinsics
from modeld.cameras.frame import Frame
from modeld.cameras.nv12 import packed_layout, venus_layout
from modeld.constants import X_IDXS
from modeld.errors import ModeldError
from modeld.fakes.clock import FakeClock
from modeld.replay.movie import MovieWriter
from modeld.replay.overlay import View, draw_overlay, frame_to_rgb, view_of
from modeld.replay.palette import EDGE, LANE, LEAD, OUTER_LANE, PATH, TRUTH, Colour
from modeld.replay.resample import nv12_views
from modeld.replay.scene import Lead, Line, Projection, Scene
from modeld.replay.sources import open_source

CAMERA = Intrinsics(1344, 760, 1141.5)
HEIGHT = 1.2
PROJECTION = Projection(CAMERA, (0.0, 0.0, 0.0))
WHOLE = View(PROJECTION, HEIGHT, (0, 0, 1344, 760))
GREY = np.full((760, 1344, 3), 110, np.uint8)


def line(y: float, probability: float = 1.0) -> Line:
    points = np.stack([X_IDXS, np.full(33, y), np.full(33, HEIGHT)], -1)
    return Line(points, probability, 0.1)


def scene(**changes: object) -> Scene:
    values: dict[str, object] = {
        "frame_id": 7,
        "valid": True,
        "path": np.zeros((0, 3)),
        "lane_lines": (),
        "road_edges": (),
        "leads": (),
        "speed": 20.0,
        "desired_curvature": 0.0,
        "desired_acceleration": 0.0,
        "execution_time": 0.01,
        "confidence": "green",
    }
    return Scene(**(values | changes))  # type: ignore[arg-type]


def colour_at(picture: npt.NDArray[np.uint8], x: float, y: float, z: float) -> npt.NDArray[np.int_]:
    ((u, v),) = PROJECTION(np.array([[x, y, z]]))
    return picture[round(v), round(u)].astype(int)


def blended(colour: Colour, opacity: float) -> npt.NDArray[np.float64]:
    return 110 + opacity * (np.array(colour) - 110)


def test_lines_are_drawn_where_they_are_as_opaque_as_they_are_probable() -> None:
    lines = (line(-5.5, 0.25), line(-1.8, 1.0), line(1.8, 0.5), line(5.5, 0.0))
    picture = draw_overlay(GREY, scene(lane_lines=lines), WHOLE)
    for own, (at, probability) in zip(
        (False, True, True, False), ((-5.5, 0.25), (-1.8, 1), (1.8, 0.5), (5.5, 0)), strict=True
    ):
        opacity = 0.18 + 0.77 * probability
        wanted = blended(LANE if own else OUTER_LANE, opacity)
        found = colour_at(picture, 12.0, at, HEIGHT)
        assert np.abs(found - wanted).max() < 12
    assert colour_at(picture, 12.0, 0.0, HEIGHT).tolist() == [110] * 3


def test_the_path_lies_on_the_road_below_the_plan() -> None:
    x = np.linspace(0, 60, 33)
    path = np.stack([x, np.zeros(33), np.zeros(33)], -1)
    picture = draw_overlay(GREY, scene(path=path), WHOLE)
    near, far = (colour_at(picture, at, 0.5, HEIGHT) for at in (5.0, 40.0))
    assert near[1] - near[0] > far[1] - far[0] > 10  # greener near the car
    assert PATH[1] == max(PATH)
    for aside in (-1.2, 1.2):  # the strip is 1.8 m wide
        assert colour_at(picture, 5.0, aside, HEIGHT).tolist() == [110] * 3


def test_edges_leads_and_truth_have_their_colours() -> None:
    shown = scene(road_edges=(line(6.0),), leads=(Lead(30.0, 1.0, 18.0, 0.9),))
    truth = (line(-2.5).points,)
    picture = draw_overlay(GREY, shown, WHOLE, truth)
    assert np.abs(colour_at(picture, 12.0, 6.0, HEIGHT) - blended(EDGE, 0.95)).max() < 12
    assert np.abs(colour_at(picture, 5.0, -2.5, HEIGHT) - blended(TRUTH, 0.9)).max() < 12
    ((u, v),) = PROJECTION(np.array([[30.0, 1.0, HEIGHT]]))
    below = picture[round(v) + 8, round(u)].astype(int)
    assert np.abs(below - blended(LEAD, 0.9)).max() < 12


def test_an_improbable_lead_is_not_drawn() -> None:
    plain = draw_overlay(GREY, scene(), WHOLE)
    unsure = draw_overlay(GREY, scene(leads=(Lead(30.0, 1.0, 18.0, 0.4),)), WHOLE)
    np.testing.assert_array_equal(plain, unsure)


def test_the_crop_moves_nothing_on_the_road() -> None:
    lines = (line(-5.5), line(-1.8), line(1.8), line(5.5))
    whole = draw_overlay(GREY, scene(lane_lines=lines), WHOLE)
    crop = View(PROJECTION, HEIGHT, (100, 60, 1244, 700))
    part = draw_overlay(GREY, scene(lane_lines=lines), crop)
    assert part.shape == (640, 1144, 3)
    # Away from panels and labels, whose places depend on the picture's size.
    np.testing.assert_array_equal(part[330:400, 300:800], whole[390:460, 400:900])


@pytest.mark.parametrize("numbers", [np.nan, np.inf, -np.inf, 1e30])
def test_wild_numbers_do_not_stop_the_drawing(numbers: float) -> None:
    wild = Line(np.full((33, 3), numbers), 1.0, 0.1)
    sheer = Line(np.stack([X_IDXS, np.full(33, numbers), np.ones(33)], -1), 0.5, 0.1)
    shown = scene(
        path=np.full((33, 3), numbers),
        lane_lines=(wild, sheer, line(2.0), line(5.0)),
        leads=(Lead(numbers, numbers, numbers, 1.0),),
        speed=numbers,
        desired_curvature=numbers,
    )
    assert draw_overlay(GREY, shown, WHOLE).shape == GREY.shape


@pytest.mark.parametrize("rgb", [(128, 128, 128), (200, 60, 50), (30, 90, 200)])
def test_frames_show_the_colours_they_hold(rgb: tuple[int, int, int]) -> None:
    layout = venus_layout(64, 48)
    red, green, blue = (channel / 255 for channel in rgb)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue  # BT.601, limited range
    u, v = (blue - luma) / 1.772, (red - luma) / 1.402
    data = np.zeros(layout.bytes, np.uint8)
    bright, tinted = nv12_views(data, layout)
    bright[:] = round(16 + 219 * luma)
    tinted[:] = round(128 + 224 * u), round(128 + 224 * v)
    picture = frame_to_rgb(Frame(data, layout, 0, 0, 0))
    assert picture.shape == (48, 64, 3)
    assert np.abs(picture[24, 32].astype(int) - rgb).max() <= 3


def test_truth_of_the_painted_road_lies_on_its_paint() -> None:
    """Painter, projection and calibration say the same of where a line is."""
    with closing(open_source("road:1", "1344x760", FakeClock(), None, count=1)) as source:
        assert source.narrow is not None
        frame = source.narrow.receive(0.1)
        assert frame is not None
        view = view_of(source.recording)
        luma, _ = nv12_views(frame.data, frame.layout)
        outermost = max(source.truth, key=lambda points: points[0, 1])  # unbroken in this scene
    near = outermost[(outermost[:, 0] > 6) & (outermost[:, 0] < 20)]
    on, beside = (
        [luma[round(v), round(u)] for u, v in view.projection(near + np.array([0, aside, 0]))]
        for aside in (0.0, 0.8)
    )
    assert len(near) > 3
    assert min(on) > max(beside) + 40


def test_a_movie_holds_every_picture(tmp_path: Path) -> None:
    path = tmp_path / "out.mp4"
    with MovieWriter(path, 20) as movie:
        for shade in range(40, 200, 20):
            movie.add(np.full((49, 65, 3), shade, np.uint8))
    with av.open(str(path)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        assert container.streams.video[0].average_rate == 20
    assert {frame.shape for frame in frames} == {(48, 64, 3)}
    means = [float(frame.mean()) for frame in frames]
    assert means == pytest.approx(list(range(40, 200, 20)), abs=4)
    assert [p.name for p in tmp_path.iterdir()] == ["out.mp4"]


def test_a_broken_movie_leaves_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="midway"),
        MovieWriter(tmp_path / "out.mp4", 20) as movie,
    ):
        movie.add(np.zeros((48, 64, 3), np.uint8))
        raise RuntimeError("midway")
    assert list(tmp_path.iterdir()) == []


def test_a_movie_without_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match=r"absent/out\.mp4 cannot be written"):
        MovieWriter(tmp_path / "absent" / "out.mp4", 20)


def test_packed_frames_are_read_too() -> None:
    layout = packed_layout(64, 48)
    data = np.full(layout.bytes, 128, np.uint8)
    picture = frame_to_rgb(Frame(data, layout, 0, 0, 0))
    assert np.abs(picture - 130.4).max() <= 2  # (128 - 16) * 255 / 219, and FFmpeg's rounding
