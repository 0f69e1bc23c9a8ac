"""Decoded colours: known ones through each matrix and range; broken files by one line."""

from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest

from modeld.errors import ModeldError
from modeld.replay.video import count_pictures, read_pictures

# Weights of red and blue in luma, by the standards' own tables.
WEIGHTS = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722)}
TAGS = {"bt601": 5, "bt709": 1, "limited": 1, "full": 2}


def encode(rgb: tuple[float, ...], matrix: str, colour_range: str) -> npt.NDArray[np.float64]:
    """R, G, B in 0 to 1 → Y, U, V as the standard defines them."""
    red, blue = WEIGHTS[matrix]
    luma = red * rgb[0] + (1 - red - blue) * rgb[1] + blue * rgb[2]
    u, v = (rgb[2] - luma) / (2 * (1 - blue)), (rgb[0] - luma) / (2 * (1 - red))
    if colour_range == "full":
        return np.array([255 * luma, 128 + 255 * u, 128 + 255 * v])
    return np.array([16 + 219 * luma, 128 + 224 * u, 128 + 224 * v])


@pytest.mark.parametrize("matrix", ["bt601", "bt709"])
@pytest.mark.parametrize("colour_range", ["limited", "full"])
@pytest.mark.parametrize(
    "rgb",
    [(0, 0, 0), (1, 1, 1), (0.5, 0.5, 0.5), (0.8, 0.2, 0.1), (0.1, 0.6, 0.2), (0.2, 0.3, 0.9)],
)
def test_colours_arrive_as_the_cameras_own(
    flat_clip: Callable[..., Path], matrix: str, colour_range: str, rgb: tuple[float, ...]
) -> None:
    y, u, v = (int(c) for c in np.rint(encode(rgb, matrix, colour_range)).clip(0, 255))
    (picture,) = read_pictures(flat_clip((y, u, v), TAGS[matrix], TAGS[colour_range]))
    wanted = encode(rgb, "bt601", "limited")
    found = [picture.luma[24, 32], picture.chroma[12, 16, 0], picture.chroma[12, 16, 1]]
    # Two levels: the source's own rounding, and FFmpeg's between the matrices.
    assert np.abs(np.array(found, float) - wanted).max() <= 2.1


def test_the_cameras_own_colours_pass_unchanged(planes_clip: Callable[..., Path]) -> None:
    rng = np.random.default_rng(1)
    planes = (
        rng.integers(16, 236, (48, 66), np.uint8),
        rng.integers(16, 241, (24, 33), np.uint8),
        rng.integers(16, 241, (24, 33), np.uint8),
    )
    (picture,) = read_pictures(planes_clip([planes]))
    assert picture.size == (66, 48)
    np.testing.assert_array_equal(picture.luma, planes[0])
    np.testing.assert_array_equal(picture.chroma, np.stack(planes[1:], -1))


def test_the_sidecars_word_beats_the_files_tag(flat_clip: Callable[..., Path]) -> None:
    path = flat_clip((200, 90, 160), TAGS["bt709"])
    (tagged,) = read_pictures(path)
    (told,) = read_pictures(path, "bt601", "limited")
    assert tuple(told.chroma[0, 0]) == (90, 160)
    assert tuple(tagged.chroma[0, 0]) != (90, 160)


def test_images_come_in_name_order(tmp_path: Path) -> None:
    for name, grey in (("b", 200), ("a", 100), ("c", 50)):
        frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), grey, np.uint8), format="rgb24")
        frame.to_image().save(tmp_path / f"{name}.png")
    (tmp_path / "notes.txt").write_text("no image")
    lumas = [int(picture.luma[0, 0]) for picture in read_pictures(tmp_path)]
    assert lumas == [round(16 + 219 * grey / 255) for grey in (100, 200, 50)]
    assert count_pictures(tmp_path) == 3


def test_real_clips_give_every_picture(data_path: Callable[[str], Path]) -> None:
    path = data_path("video/highway/test_video.mp4")
    sizes = {picture.size for picture in read_pictures(path)}
    assert sizes == {(1280, 720)}
    assert count_pictures(path) == sum(1 for _ in read_pictures(path)) == 38


@pytest.mark.parametrize("content", [b"", b"not a video", bytes(5000)])
def test_what_is_no_video_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(content)
    with pytest.raises(ModeldError, match=r"clip\.mp4 is no video") as caught:
        next(read_pictures(path))
    assert "\n" not in str(caught.value)


def test_missing_and_empty_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match=r"absent\.mp4 is no file and no folder"):
        next(read_pictures(tmp_path / "absent.mp4"))
    with pytest.raises(ModeldError, match="holds no images"):
        next(read_pictures(tmp_path))


def test_a_sound_file_has_no_video(tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    path.write_bytes(
        b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0"
        b"data\x08\0\0\0" + bytes(8)
    )
    with pytest.raises(ModeldError, match="no video stream"):
        next(read_pictures(path))


def test_damage_midway_is_named(tmp_path: Path, data_path: Callable[[str], Path]) -> None:
    content = bytearray(data_path("video/highway/test_video.mp4").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 20_000] = bytes(20_000)
    path = tmp_path / "damaged.mp4"
    path.write_bytes(content)
    with pytest.raises(ModeldError, match=r"damaged.mp4 is broken after picture \d+"):
        list(read_pictures(path))


def test_a_cut_file_is_named(tmp_path: Path, data_path: Callable[[str], Path]) -> None:
    content = data_path("video/highway/test_video.mp4").read_bytes()
    path = tmp_path / "cut.mp4"
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModeldError, match=r"cut\.mp4 is"):
        list(read_pictures(path))
