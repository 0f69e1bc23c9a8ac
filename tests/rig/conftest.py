"""Clips as fixtures."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from clips import write_grey_clip


@pytest.fixture
def clip(tmp_path: Path) -> Callable[..., Path]:
    """A clip of flat grey pictures, one luma value each, with its sidecar."""
    return partial(write_grey_clip, tmp_path)
