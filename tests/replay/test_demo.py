"""The demonstration, on a tiny artifact: real daemon process, real sockets, real pictures."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from toy_driver import write_driver

from modeld.replay.demo import main
from modeld.replay.roadclip import paint_road_clip
from modeld.replay.sidecar import read_sidecar
from modeld.replay.video import read_pictures


def test_a_clip_ends_in_a_table_and_pictures(
    clip: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifact = tmp_path / "driver"
    artifact.mkdir()
    write_driver(artifact, 1344, 760)
    out = tmp_path / "out"
    address = f"127.{os.getpid() % 250 + 1}.{random.randrange(250)}.{random.randrange(1, 250)}"
    flags = ["--artifact", str(artifact), "--out", str(out), "--bind", address, "--movie"]
    greys = [40 + 2 * n for n in range(50)]
    assert main([str(clip(greys)), *flags]) == 0
    shown = capsys.readouterr().err
    for part in ("end to end", "answered", "overlay.png", "latency.png"):
        assert part in shown
    with Image.open(out / "overlay.png") as overlay, Image.open(out / "latency.png") as plot:
        assert (overlay.size, overlay.format) == ((1344, 760), "PNG")
        assert plot.format == "PNG"
    assert (out / "overlay.mp4").stat().st_size > 0


@pytest.mark.parametrize("clip_given", [["absent.mp4"], []])
def test_what_goes_wrong_is_one_line(
    clip_given: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("modeld.replay.demo.paint_road_clip", lambda *_: pytest.fail("painted"))
    flags = ["--artifact", str(tmp_path / "none"), "--out", str(tmp_path)]
    assert main([*clip_given, *flags]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("demo: error: ")
    assert "none" in line


def test_the_painted_road_is_a_clip_like_any_other(tmp_path: Path) -> None:
    done: list[int] = []
    path = paint_road_clip(tmp_path, 4, 2, done.append)
    assert done == [1, 2]
    sidecar = read_sidecar(path.with_suffix(".toml"))
    pictures = list(read_pictures(path))
    assert [picture.size for picture in pictures] == [(448, 254)] * 2
    assert (sidecar.camera.width, sidecar.camera.height) == (448, 254)
    # The same view as the device's camera has: a third of its focal length in pixels.
    assert sidecar.camera.focal == pytest.approx(1141.5 / 3)
    assert paint_road_clip(tmp_path, 4, 2, done.append) == path
    assert done == [1, 2]  # not painted again
