"""Sidecars: what they say, where they are found, what is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from modeld.calibration import Intrinsics
from modeld.errors import ModeldError
from modeld.replay.sidecar import EXAMPLES, Sidecar, find_sidecar, read_sidecar

FULL = """
[camera]
size = [960, 540]
focal_length = 950
center = [481.5, 270.0]
distortion = [-0.27, 0.1, 0.001, 0.002, 0.0]
[mount]
rpy = [0.0, -0.036, 0.001]
height = 1.25
[drive]
speed = 27.5
[colour]
matrix = "bt709"
range = "full"
"""

MINIMAL = """
[camera]
size = [960, 540]
focal_length = 950.0
[mount]
rpy = [0, 0, 0]
height = 1.22
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "clip.toml"
    path.write_text(text)
    return path


def test_every_value_is_read(tmp_path: Path) -> None:
    assert read_sidecar(written(tmp_path, FULL)) == Sidecar(
        Intrinsics(960, 540, 950.0, 481.5, 270.0),
        rpy=(0.0, -0.036, 0.001),
        camera_height=1.25,
        speed=27.5,
        distortion=(-0.27, 0.1, 0.001, 0.002, 0.0),
        colour_matrix="bt709",
        colour_range="full",
    )


def test_defaults_are_the_middle_no_distortion_and_twenty_metres_per_second(tmp_path: Path) -> None:
    sidecar = read_sidecar(written(tmp_path, MINIMAL))
    assert sidecar.camera == Intrinsics(960, 540, 950.0, 480.0, 270.0)
    assert sidecar.distortion == (0.0,) * 5
    assert sidecar.speed == 20.0
    assert sidecar.colour_matrix is None
    assert sidecar.colour_range is None


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("focal_length = 950.0", "", "camera.focal_length is missing"),
        ("focal_length = 950.0", "focal_length = -3", "camera.focal_length is -3"),
        ("focal_length = 950.0", 'focal_length = "long"', "camera.focal_length is 'long'"),
        ("focal_length = 950.0", "focal_length = true", "camera.focal_length is True"),
        ("focal_length = 950.0", "focal_length = [1, 2]", r"camera.focal_length is \[1, 2\]"),
        ("size = [960, 540]", "size = [960.5, 540]", "camera.size"),
        ("size = [960, 540]", "size = [960]", "camera.size"),
        ("size = [960, 540]", "size = [0, 540]", "camera.size"),
        ("rpy = [0, 0, 0]", "rpy = [0, nan, 0]", "mount.rpy"),
        ("height = 1.22", "height = 0", "mount.height is 0"),
        ("height = 1.22", "hight = 1.22", "unknown mount.hight"),
        ("[mount]", "[mout]", "unknown mout"),
        ("[mount]", '[colour]\nmatrix = "bt2020"\n[mount]', "colour.matrix is 'bt2020'"),
        ("[mount]", "[mount", "is not TOML"),
    ],
)
def test_wrong_values_are_named(tmp_path: Path, old: str, new: str, named: str) -> None:
    path = written(tmp_path, MINIMAL.replace(old, new))
    with pytest.raises(ModeldError, match=named) as caught:
        read_sidecar(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_found_beside_the_clip_before_the_examples(tmp_path: Path) -> None:
    clip = tmp_path / "solidWhiteRight.mp4"
    assert find_sidecar(clip) == EXAMPLES / "solidWhiteRight.toml"
    beside = clip.with_suffix(".toml")
    beside.write_text(MINIMAL)
    assert find_sidecar(clip) == beside


def test_found_for_a_folder_inside_or_beside(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    folder.mkdir()
    (tmp_path / "drive.toml").write_text(MINIMAL)
    assert find_sidecar(folder) == tmp_path / "drive.toml"
    (folder / "sidecar.toml").write_text(MINIMAL)
    assert find_sidecar(folder) == folder / "sidecar.toml"


def test_none_found_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match="no sidecar") as caught:
        find_sidecar(tmp_path / "clip.mp4")
    assert str(tmp_path / "clip.toml") in str(caught.value)
    with pytest.raises(ModeldError, match="absent"):
        find_sidecar(tmp_path / "clip.mp4", tmp_path / "absent.toml")


def test_shipped_sidecars_match_their_clips(data_path: Callable[[str], Path]) -> None:
    sizes = {"lanelines/solidWhiteRight.mp4": (960, 540), "highway/test_video.mp4": (1280, 720)}
    for clip, size in sizes.items():
        sidecar = read_sidecar(find_sidecar(data_path(f"video/{clip}")))
        assert (sidecar.camera.width, sidecar.camera.height) == size
        # What calibrationd accepts as a mount: pitch and yaw limits of openpilot.
        assert -0.09074 < sidecar.rpy[1] < 0.17
        assert abs(sidecar.rpy[2]) < 0.06912
