"""Plots are pictures with something in them; what cannot be drawn is named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import msgschema
from modeld.errors import ModeldError
from modeld.health import TurnTimes
from modeld.replay.plots import ModelCurves, plot_comparison, plot_latency, read_curves
from modeld.rig.latency import Answer
from modeld.rig.recorder import Recorder

MS = 1_000_000
PERIOD = 50 * MS


def model(frame_id: int, whole: bool = True) -> Any:
    built = msgschema.load().Event.new_message()
    content = built.init("modelV2")
    content.frameId = frame_id
    content.action.desiredCurvature = 0.5
    if whole:
        content.velocity.x = [20.0]
        for index, line in enumerate(content.init("laneLines", 4)):
            line.y = [float(index)]
        content.init("leadsV3", 1)[0].x = [60.0]
        content.meta.desireState = [0, 0, 0, 0.25, 0.75, 0, 0, 0]
        content.meta.disengagePredictions.gasPressProbs = [0.1, 0.2]
    return built.as_reader()


def ink(path: Path) -> float:
    """The share of pixels that are not white."""
    with Image.open(path) as picture:
        return float((np.asarray(picture.convert("L")) < 250).mean())


def test_the_eight_curves_are_those_of_the_fields() -> None:
    other = msgschema.load().Event.new_message()
    other.init("carState")
    curves = read_curves([model(4), other.as_reader(), model(5)])
    assert curves.frames == [4, 5]
    first = [round(values[0], 6) for values in curves.values.values()]
    assert first == pytest.approx([20.0, 0.5, 0.0, 60.0, 1.0, 0.25, 0.75, 0.2])


def test_heads_that_a_network_lacks_are_left_empty() -> None:
    curves = read_curves([model(4, whole=False)])
    missing = [name for name, values in curves.values.items() if np.isnan(values[0])]
    assert len(missing) == 6


def test_a_single_frame_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "plots.png"
    one, none = read_curves([model(4)]), read_curves([])
    plot_comparison(path, one, none, ("one", "none"))
    with Image.open(path) as picture:
        colours = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    # The first log's colour, in the legend and as a point in each of eight plots.
    drawn = int((np.abs(colours.astype(int) - (0x8F, 0xA3, 0xB5)).max(1) < 8).sum())
    plot_comparison(path, none, none, ("one", "none"))
    with Image.open(path) as picture:
        colours = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    legend = int((np.abs(colours.astype(int) - (0x8F, 0xA3, 0xB5)).max(1) < 8).sum())
    assert drawn - legend > 8 * 20


def test_what_neither_log_has_is_said(tmp_path: Path) -> None:
    path = tmp_path / "plots.png"
    plot_comparison(path, *[read_curves([model(4, whole=False)])] * 2, ("one", "two"))
    without = ink(path)
    plot_comparison(path, *[read_curves([model(4)])] * 2, ("one", "two"))
    assert without != ink(path)


def test_a_comparison_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "plots.png"
    frames = list(range(50))
    names = read_curves([model(0)]).values
    curves = ModelCurves(frames, {name: np.sin(frames).tolist() for name in names})
    plot_comparison(path, curves, curves, ("reference.zst", "log.zst"))
    assert 0.02 < ink(path) < 0.5
    assert path.stat().st_mode & 0o044  # readable for others, as other results are


def recorded(frames: int) -> Recorder:
    recorder = Recorder(PERIOD, PERIOD)
    for frame_id in range(frames):
        if frame_id == 30:
            continue
        eof = frame_id * PERIOD
        recorder.answered(Answer(frame_id, eof, eof + 21 * MS), valid=True)
        stamps = [eof + t * MS for t in (1, 2, 17, 18, 20)]
        recorder.turn(TurnTimes(frame_id, eof, *stamps, 1 * MS, 2 * MS, 10 * MS, 1 * MS))
    return recorder


@pytest.mark.parametrize("frames", [11, 12, 60])
def test_latencies_are_drawn_however_few(tmp_path: Path, frames: int) -> None:
    recorder = recorded(frames)
    path = tmp_path / "latency.png"
    plot_latency(path, list(recorder.rows), list(recorder.samples), 50.0, "title")
    assert ink(path) > 0.02


def test_nothing_to_draw_and_nowhere_to_write_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match="no frame was answered"):
        plot_latency(tmp_path / "x.png", [], [], 50.0, "title")
    recorder = recorded(20)
    nowhere = tmp_path / "absent" / "x.png"
    with pytest.raises(ModeldError, match="cannot be written"):
        plot_latency(nowhere, list(recorder.rows), list(recorder.samples), 50.0, "title")


@pytest.mark.parametrize(
    ("name", "start"),
    [("a.png", b"\x89PNG"), ("a.PNG", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")],
)
def test_a_picture_is_what_its_name_says(tmp_path: Path, name: str, start: bytes) -> None:
    curves = read_curves([model(4), model(5)])
    plot_comparison(tmp_path / name, curves, curves, ("one", "other"))
    assert (tmp_path / name).read_bytes().startswith(start)
