"""Clips as fixtures."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from clips import Planes, flat_planes, write_clip, write_grey_clip


@pytest.fixture
def flat_clip(tmp_path: Path) -> Callable[..., Path]:
    """A one-picture clip of one Y, U, V with the given tags, without a sidecar."""

    def make(colour: tuple[int, int, int], colorspace: int = 5, color_range: int = 1) -> Path:
        return write_clip(tmp_path / "flat.mkv", [flat_planes(colour)], colorspace, color_range)

    return make


@pytest.fixture
def planes_clip(tmp_path: Path) -> Callable[[list[Planes]], Path]:
    """A clip of given planes in the cameras' own colours, without a sidecar."""
    return lambda pictures: write_clip(tmp_path / "planes.mkv", pictures)


@pytest.fixture
def clip(tmp_path: Path) -> Callable[..., Path]:
    """A clip of flat grey pictures, one luma value each, with its sidecar."""
    return partial(write_grey_clip, tmp_path)
