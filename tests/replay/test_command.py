"""`modeld replay` and `modeld compare` from the outside, on a tiny artifact."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import av
import pytest
from routes import event, write_route
from toy_artifact import write_toy
from toy_driver import write_driver

from modeld.cli import main
from modeld.replay.log import LogWriter, read_events

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
    log, movie = tmp_path / "out.zst", tmp_path / "OUT.MP4"
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


def test_what_will_be_replaced_is_told_before(
    replay: Callable[..., int],
    clip: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = [tmp_path / name for name in ("out.zst", "out.mp4")]
    flags = ["--out", str(files[0]), "--overlay", str(files[1]), "--frames", "1"]
    told = f"replaces {files[0]} and {files[1]} at the end"
    assert replay(clip(GREYS), *flags) == 0
    shown = capsys.readouterr().err
    assert told not in shown
    assert replay(clip(GREYS), *flags) == 0
    assert capsys.readouterr().err.splitlines()[0] == told


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
        (("--from-frame", "6"), "has no frame 6; give a smaller --from-frame"),
        (("--compare", "a.zst"), "--compare needs --out"),
        (("--plots", "a.png"), "--plots has a meaning only with --compare and --out"),
        (("--ignore", "frameAge"), "--ignore has a meaning only with --compare and --out"),
        (("--tolerance", "1"), "--tolerance has a meaning only with --compare and --out"),
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


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is loaded onto a device in these tests."""

    def load(*_: object) -> NoReturn:
        pytest.fail("the network was loaded")

    monkeypatch.setattr("modeld.commands.options.Executor", load)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--compare", "absent.zst"), "absent.zst cannot be read"),
        (("--compare", "clip.toml"), "clip.toml is no log"),
        (("--compare", "good", "--ignore", "timestampEoff"), "did you mean timestampEof?"),
        (("--compare", "good", "--ignore", "modelV2.psition"), "did you mean modelV2.position?"),
        (("--compare", "good", "--tolerance", "-1"), "--tolerance -1.0 is no tolerance"),
        (("--compare", "good", "--plots", "absent/a.png"), "absent/a.png cannot be written"),
        (("--compare", "good", "--plots", "curves"), "curves has no ending of a picture"),
        (("--out", "a.png", "--compare", "good", "--plots", "a.png"), "a.png is --out as well"),
        (("--compare", "out"), "--out out is --compare as well"),
        (("--out", "clip.avi"), "--out clip.avi is the source as well"),
        (("--out", "."), ". cannot be written (Is a directory); name a file"),
        (("--overlay", "absent/out.mp4"), "absent/out.mp4 cannot be written"),
        (("--overlay", "out"), "--overlay out is --out as well"),
        (("--overlay", "out.mkv"), "out.mkv has no ending of a video; give it .mp4"),
        (("--overlay", "movie"), "movie has no ending of a video; give it .mp4"),
        (("--out", "out.gz"), "out.gz has no ending of a log; give it .zst or .bz2 or none"),
        (("--config", "absent.toml"), "configuration absent.toml cannot be read"),
        (("--sidecar", "good"), "sidecar good is not TOML"),
        (
            ("--camera", "1928x1208"),
            "the frames are 1928x1208, the artifact was built for 1344x760",
        ),
        (("--speed", "0"), "--speed 0 is none of"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(
    clip: Callable[..., Path],
    replay: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with LogWriter(Path("good")) as log:
        log.write(event("carState", 1))
    before = sorted(tmp_path.iterdir())
    flags = more if "--out" in more else ("--out", "out", *more)
    assert named in failure(capsys, replay(clip(GREYS).name, *flags))
    assert sorted({*tmp_path.iterdir()} - {tmp_path / "clip.avi", tmp_path / "clip.toml"}) == before


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("source", "more", "named"),
    [
        ("", (), "'' names no source; give a route, a video, a folder of images, or road[:SEED]"),
        ("loop:", (), "'loop:' names no source"),
        ("absent.mp4", (), "absent.mp4 does not exist; give a route, a video"),
        ("good", (), "good has a log but no frames; put its fcamera.hevc"),
        ("good--0/rlog.zst", (), "rlog.zst is a log, and a log has no pictures; give the route's"),
        ("bad--0", (), "bad--0 has no rlog or qlog; put it beside the pictures"),
        ("folder", (), "folder holds no image and no segment NAME--N; give a route, a video"),
        ("text.txt", (), "text.txt is no video that FFmpeg can open"),
        ("road:x", (), "road:x has the seed 'x'"),
        ("road", ("--sidecar", "s.toml"), "road is painted for its camera; drop --sidecar"),
        ("loop:road:3", ("--sidecar", "s.toml"), "drop --sidecar"),
    ],
)
def test_what_is_no_source_is_named(
    replay: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    source: str,
    more: tuple[str, ...],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("good--0", "bad--0", "folder"):
        Path(folder).mkdir()
    with LogWriter(Path("good--0") / "rlog.zst") as log:
        log.write(b"\0" * 8)
    Path("text.txt").write_text("no video")
    assert named in failure(capsys, replay(source, *more))


@pytest.mark.usefixtures("no_work")
def test_a_network_that_does_not_drive_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_toy(tmp_path / "toy")
    status = main(["replay", "road", "--artifact", str(tmp_path / "toy"), "--camera", "1344x760"])
    assert "not a driving network" in failure(capsys, status)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_replay_that_is_stopped_keeps_what_it_has(
    artifact: Path, tmp_path: Path, number: signal.Signals, clip: Callable[..., Path]
) -> None:
    log, movie = tmp_path / "out.zst", tmp_path / "out.mp4"
    # Endless: only a signal ends it.
    command = [sys.executable, "-m", "modeld", "replay", f"loop:{clip(GREYS)}"]
    command += ["--artifact", str(artifact), "--cache", str(tmp_path / "cache")]
    command += ["--out", str(log), "--overlay", str(movie)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        # The program cache is filled just before the first frame.
        wait_for(lambda: len(list(tmp_path.glob("cache/*"))) > 0)
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    last = told.splitlines()[-1]
    if last != f"modeld: stopped by {number.name}":  # else it was stopped before the first frame
        match = re.fullmatch(
            rf"modeld: stopped by {number.name} after (\d+) frames, kept in {log} and {movie}", last
        )
        assert match, told
        assert [frame for frame, _ in answers(log)] == list(range(int(match[1])))
        assert movie.exists() == (match[1] != "0")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


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
    assert replay(path, "--out", str(log)) == 1
    (line,) = capsys.readouterr().err.splitlines()  # no empty one where the bar was
    assert "is broken after picture" in line
    assert not log.exists()


def test_logs_that_hold_nothing_to_compare_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    assert "absent" in failure(capsys, main(["compare", str(tmp_path / "absent"), str(empty)]))
    for more, named in (
        (("--tolerance", "-1"), "--tolerance -1.0 is no tolerance"),
        (("--ignore", "posittion"), "did you mean position?"),
        (
            ("--plots", "plot.jpeg"),
            "plot.jpeg has no ending of a picture; give it .png or .svg or .pdf",
        ),
        (("--plots", "/absent/a.png"), "/absent/a.png cannot be written"),
        ((), "empty is empty"),
    ):
        assert named in failure(capsys, main(["compare", str(empty), str(empty), *more]))
    with LogWriter(tmp_path / "other") as log:
        log.write(event("carState", 1))
    others = [str(tmp_path / "other")] * 2
    assert "holds a model message" in failure(capsys, main(["compare", *others]))
