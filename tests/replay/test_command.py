"""`modeld replay` and `modeld compare` from the outside, on a tiny artifact."""

import json
from collections.abc import Callable
from pathlib import Path

import av
import pytest
from routes import write_route
from toy_driver import write_driver

from modeld.cli import main
from modeld.replay.log import read_events

GREYS = [40, 60, 80, 100, 120, 140]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "driver"
    path.mkdir()
    write_driver(path, 1344, 760)
    return path


@pytest.fixture
def replay(artifact: Path, tmp_path: Path) -> Callable[..., int]:
    def run(source: Path | str, *more: str) -> int:
        flags = ["--artifact", str(artifact), "--cache", str(tmp_path / "cache")]
        return main(["replay", str(source), *flags, *more])

    return run


def answers(log: Path) -> list[tuple[int, float]]:
    """Frame id and the first number of the answer, which the tiny network makes of the picture."""
    return [
        (event.modelV2.frameId, round(event.modelV2.laneLines[0].y[0], 6))
        for event in read_events(log)
        if event.which() == "modelV2"
    ]


def test_a_clip_becomes_a_log_and_a_movie(
    clip: Callable[..., Path], replay: Callable[..., int], tmp_path: Path
) -> None:
    log, movie = tmp_path / "out.zst", tmp_path / "out.mp4"
    assert replay(clip(GREYS), "--out", str(log), "--overlay", str(movie)) == 0
    assert answers(log) == [(n, round(grey / 256 - 0.5, 6)) for n, grey in enumerate(GREYS)]
    with av.open(str(movie)) as container:
        assert sum(1 for _ in container.decode(video=0)) == 6
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("speed", ["lockstep", "max"])
def test_a_part_again_agrees_with_its_reference(
    clip: Callable[..., Path],
    replay: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    speed: str,
) -> None:
    path, reference, plots = clip(GREYS), tmp_path / "a.zst", tmp_path / "plots.png"
    span = ("--from-frame", "2", "--frames", "3")
    assert replay(path, "--out", str(reference), *span) == 0
    again = tmp_path / "b.bz2"
    compared = ("--compare", str(reference), "--plots", str(plots), "--speed", speed)
    assert replay(path, "--out", str(again), *span, *compared) == 0
    assert "the logs agree: 9 messages compared" in capsys.readouterr().out
    assert plots.read_bytes().startswith(b"\x89PNG")
    assert [frame for frame, _ in answers(again)] == [2, 3, 4]


def test_logs_of_different_clips_differ(
    clip: Callable[..., Path],
    replay: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = tmp_path / "a.zst", tmp_path / "b.zst"
    changed = [*GREYS[:4], GREYS[4] + 10, GREYS[5]]
    assert replay(clip(GREYS, name="one"), "--out", str(first)) == 0
    assert replay(clip(changed, name="two"), "--out", str(second)) == 0
    capsys.readouterr()
    assert main(["compare", str(first), str(second), "--json"]) == 1
    outcome = json.loads(capsys.readouterr().out)
    assert not outcome["equal"]
    (line,) = (d for d in outcome["differences"] if d["field"] == "modelV2.laneLines[0].y")
    assert (line["first_frame"], line["frames"]) == (4, 1)
    assert line["largest"] == pytest.approx(10 / 256, rel=1e-5)
    assert main(["compare", str(first), str(second)]) == 1
    assert "the logs differ" in capsys.readouterr().out
    assert main(["compare", str(first), str(second), "--tolerance", "10"]) == 0


def test_a_route_is_compared_with_the_answers_that_it_holds(
    replay: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    route = write_route(tmp_path, answers=lambda model, number: setattr(model, "frameAge", 3))
    log, plots = tmp_path / "out.zst", tmp_path / "plots.png"
    assert replay(route, "--out", str(log), "--plots", str(plots), "--frames", "3") == 0
    shown = capsys.readouterr().out
    assert "against the answers that the route holds" in shown
    assert "3 messages compared" in shown
    assert plots.read_bytes().startswith(b"\x89PNG")
    assert [frame for frame, _ in answers(log)] == [100, 101, 102]


def test_real_time_drops_nothing_when_the_network_is_quick(
    clip: Callable[..., Path], replay: Callable[..., int], tmp_path: Path
) -> None:
    log = tmp_path / "out.zst"
    assert replay(clip(GREYS), "--out", str(log), "--speed", "0.5") == 0
    frames = [frame for frame, _ in answers(log)]
    assert frames == sorted(frames)
    assert frames[-1] == 5


def failure(capsys: pytest.CaptureFixture[str], status: int) -> str:
    assert status == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    (line,) = lines
    return line


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--speed", "fast"), "--speed fast is none of lockstep, max"),
        (("--speed", "-1"), "--speed -1 is none of"),
        (("--frames", "0"), "--frames 1 or more"),
        (("--from-frame", "6"), "gave no frame to answer"),
        (("--compare", "a.zst"), "--compare needs --out"),
        (("--camera", "640x480"), "no known device has 640x480"),
        (("--camera", "1928x1208"), "1928x1208"),
        (("--sidecar", "absent.toml"), "absent.toml"),
        (("--out", "/absent/log.zst"), "/absent/log.zst"),
        (("--overlay", "/absent/out.mp4"), "/absent/out.mp4 cannot be written"),
    ],
)
def test_wrong_flags_are_named(
    clip: Callable[..., Path],
    replay: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    named: str,
) -> None:
    assert named in failure(capsys, replay(clip(GREYS), *more))


def test_a_clip_that_breaks_midway_leaves_no_half_log(
    clip: Callable[..., Path],
    replay: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = clip(GREYS)
    content = bytearray(path.read_bytes())
    fourth = -1
    for _ in range(4):  # AVI's mark before each picture: its stream, then its length
        fourth = content.index(b"00dc", fourth + 1)
    content[fourth + 12 : fourth + 40] = bytes(range(28))
    path.write_bytes(content)
    log = tmp_path / "out.zst"
    line = failure(capsys, replay(path, "--out", str(log)))
    assert "is broken after picture" in line
    assert not log.exists()


def test_logs_that_hold_nothing_to_compare_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    assert "absent" in failure(capsys, main(["compare", str(tmp_path / "absent"), str(empty)]))
    status = main(["compare", str(empty), str(empty), "--tolerance", "-1"])
    assert "--tolerance -1.0 is no tolerance" in failure(capsys, status)
