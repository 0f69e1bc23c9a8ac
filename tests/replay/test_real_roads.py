"""The reference network on real highways: the own lane's lines lie on the markings."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from lane_markings import MarkingFinder, offsets

from modeld.cli import main
from modeld.clock import SystemClock
from modeld.messaging import member_name
from modeld.replay.log import read_events
from modeld.replay.overlay import frame_to_rgb
from modeld.replay.scene import Projection, Scene, scene_of
from modeld.replay.sources import open_source

SIDECARS = Path(__file__).parents[2] / "examples" / "sidecars"
CAMERA = "1344x760"
EVERY = 6


def answers(clip: Path, artifact: Path, log: Path, frames: int) -> dict[int, Scene]:
    """What the daemon says of a clip's frames."""
    sidecar = SIDECARS / f"{clip.stem}.toml"
    arguments = ["--artifact", str(artifact), "--allow", "unpinned", "--sidecar", str(sidecar)]
    assert main(["replay", str(clip), *arguments, "--frames", str(frames), "--out", str(log)]) == 0
    models = (event for event in read_events(log) if member_name(event) == "modelV2")
    return {scene.frame_id: scene for scene in map(scene_of, models)}


@pytest.mark.parametrize(
    ("relative", "frames"),
    [("video/lanelines/solidWhiteRight.mp4", 60), ("video/highway/test_video.mp4", 38)],
)
def test_own_lines_lie_on_the_markings(
    data_path: Callable[[str], Path],
    reference_artifact: Path,
    tmp_path: Path,
    relative: str,
    frames: int,
) -> None:
    clip, finder = data_path(relative), MarkingFinder(data_path("models/driving/twinlitenet.onnx"))
    scenes = answers(clip, reference_artifact, tmp_path / "log", frames)
    sidecar = SIDECARS / f"{clip.stem}.toml"
    source = open_source(str(clip), CAMERA, SystemClock(), None, sidecar=sidecar, count=frames)
    found: list[float] = []
    chances: list[float] = []
    places = 0
    with closing(source) as device:
        projection = Projection(device.recording.camera, device.recording.profile.rpy)
        for _ in range(frames):
            frame = device.take_narrow(0.0)
            assert frame is not None
            if frame.frame_id % EVERY:
                continue
            mask = finder.mask(frame_to_rgb(frame))
            camera = device.recording.camera
            scene = scenes[frame.frame_id]
            near, seen = offsets(scene, mask, projection, camera)
            found, places = found + near, places + seen
            chances += [scene.lane_lines[i].probability for i in scene.own_lines]
    assert places > 60
    assert len(found) > 0.9 * places
    assert np.median(chances) > 0.9
    assert np.median(found) < 0.15  # metres; paint is 0.1 to 0.15 m wide
