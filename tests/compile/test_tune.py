"""Choice of tiles: from a file, by timing within a budget, by estimate."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compile.cli import main
from compile.kernels import conv
from compile.kernels.conv import Convolution, Tile
from compile.kernels.launch import Kernel
from compile.kernels.layout import BLOCKED, MapShape
from compile.tune import DeviceTimer, Tiles, Tuning, key_of, load_tuning, save_tuning
from modeld.errors import ModeldError
from modeld.opencl import select_device

SHAPE = Convolution(
    MapShape(1, 32, 8, 16),
    32,
    MapShape(1, 64, 8, 16),
    (3, 3),
    (1, 1),
    (1, 1),
    (1, 1),
    1,
    BLOCKED,
    BLOCKED,
    ("add channel 0", "relu", "add tensor 0"),
)


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Timer:
    """Says that the last candidate is the quickest, and that asking takes ten seconds."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.asked = 0

    def __call__(self, shape: Convolution, kernels: Sequence[Kernel]) -> list[float]:
        self.clock.now += 10
        self.asked += 1
        return [float(len(kernels) - n) for n in range(len(kernels))]


def test_estimate_without_file_or_device() -> None:
    tiles = Tiles(Tuning())
    assert tiles.convolution(SHAPE) == conv.candidates(SHAPE)[0]
    assert tiles.chosen.digest == ""


def test_timed_once_and_remembered() -> None:
    clock = Clock()
    timer = Timer(clock)
    tiles = Tiles(Tuning("here"), timer, 60, clock)
    first = tiles.convolution(SHAPE)
    assert first == conv.candidates(SHAPE)[5]
    assert tiles.convolution(replace(SHAPE, steps=())) == first
    assert timer.asked == 1
    assert tiles.chosen == Tuning("here", {key_of("direct", SHAPE): first})


def test_budget_ends_the_timing() -> None:
    clock = Clock()
    timer = Timer(clock)
    tiles = Tiles(Tuning(), timer, 15, clock)
    shapes = [replace(SHAPE, stride=(1, 2), pads=(n, 1)) for n in range(4)]
    chosen = [tiles.convolution(shape) for shape in shapes]
    assert timer.asked == 2
    assert chosen[2:] == [conv.candidates(shape)[0] for shape in shapes[2:]]
    assert set(tiles.chosen.tiles) == {key_of("direct", shape) for shape in shapes[:2]}


def test_a_file_makes_the_same_choice_again(tmp_path: Path) -> None:
    clock = Clock()
    tiles = Tiles(Tuning("here"), Timer(clock), 60, clock)
    first = tiles.convolution(SHAPE)
    save_tuning(tmp_path / "t.json", tiles.chosen)
    again = Tiles(load_tuning(tmp_path / "t.json"))
    assert again.convolution(SHAPE) == first
    assert again.chosen.digest == tiles.chosen.digest != ""
    save_tuning(tmp_path / "u.json", again.chosen)
    assert (tmp_path / "t.json").read_bytes() == (tmp_path / "u.json").read_bytes()


def test_a_tile_that_cannot_be_is_not_taken() -> None:
    foreign = Tuning("x", {key_of("direct", SHAPE): Tile(3, 8)})  # 4 blocks are no multiple of 3
    assert Tiles(foreign).convolution(SHAPE) == conv.candidates(SHAPE)[0]


def test_keys_tell_convolutions_apart() -> None:
    others = [
        replace(SHAPE, kernel=(1, 3)),
        replace(SHAPE, stride=(2, 1)),
        replace(SHAPE, dilation=(1, 2)),
        replace(SHAPE, pads=(1, 0)),
        replace(SHAPE, groups=2),
        replace(SHAPE, in_layout="nchw"),
        replace(SHAPE, in_map=MapShape(1, 48, 8, 16)),
        replace(SHAPE, out_map=MapShape(1, 64, 16, 8)),
        replace(SHAPE, upscale=(2, 1)),
    ]
    keys = {key_of("direct", shape) for shape in [SHAPE, *others]}
    assert len(keys) == 1 + len(others)
    assert key_of("depthwise", SHAPE) not in keys


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"format":"modeld-tuning","version":2,"device":"","tiles":{}}',
        '{"format":"modeld-tuning","version":1,"device":"","tiles":{"a":[1,2]}}',
        '{"format":"modeld-tuning","version":1,"device":"","tiles":{"a":[1,2,0]}}',
        '{"format":"modeld-tuning","version":1,"device":"","tiles":{"a":[1,true,1]}}',
        '{"format":"modeld-tuning","version":1,"device":"","tiles":[]}',
        "[" * 100_000,
    ],
)
def test_a_bad_file_is_refused_with_its_name(content: str, tmp_path: Path) -> None:
    path = tmp_path / "tiles.json"
    path.write_text(content)
    with pytest.raises(ModeldError, match=r"tiles\.json is not a tuning file of version 1"):
        load_tuning(path)


def test_a_file_that_never_ends_is_refused() -> None:
    with pytest.raises(ModeldError, match="/dev/zero has more than 16777216 bytes, expected"):
        load_tuning(Path("/dev/zero"))


def test_where_tiles_cannot_be_written_is_found_out_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiles = tmp_path / "absent" / "tiles.json"
    command = ["build", "absent.onnx", "--out", "a", "--tuning", str(tiles), "--tune", "1"]
    assert main(command) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"modeld-compile: error: {tiles} cannot be written (No such file")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
)


@settings(suppress_health_check=list(HealthCheck))
@given(JSON, st.sampled_from(["format", "version", "device", "tiles"]))
def test_a_hostile_file_is_refused(tmp_path: Path, value: object, place: str) -> None:
    document = {"format": "modeld-tuning", "version": 1, "device": "", "tiles": {}}
    path = tmp_path / "tiles.json"
    path.write_text(json.dumps({**document, place: value}))
    with contextlib.suppress(ModeldError):
        assert isinstance(load_tuning(path), Tuning)


def test_a_convolution_inside_another_kernel_is_estimated() -> None:
    timer = Timer(Clock())
    tiles = Tiles(Tuning(), timer)
    assert tiles.estimated(SHAPE) == conv.candidates(SHAPE)[0]
    assert not timer.asked
    assert not tiles.chosen.tiles


def test_the_device_times_what_it_would_run() -> None:
    tiles = [Tile(1, 4), Tile(2, 8)]
    kernels = [conv.render(SHAPE, tile) for tile in tiles]
    seconds = DeviceTimer(select_device())(SHAPE, kernels)
    assert len(seconds) == 2 and all(0 < s < 1 for s in seconds)
