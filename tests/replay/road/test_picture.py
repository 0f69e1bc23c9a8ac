"""What is painted is where the truth says it is, and every painter paints the same."""

import dataclasses

import numpy as np
import pytest

from modeld.calibration import VIEW_FROM_DEVICE, Intrinsics, rot_from_euler
from modeld.cameras.nv12 import packed_layout
from modeld.constants import X_IDXS
from modeld.replay.road.camera import rays_of
from modeld.replay.road.drive import Drive, Moment
from modeld.replay.road.maths import NumpyMaths
from modeld.replay.road.render import Painter, camera_values, one
from modeld.replay.road.scene import LINES, PARAMETERS
from modeld.replay.road.shading import PLAIN, Detail
from modeld.replay.road.truth import truth_of

CAMERA = Intrinsics(640, 400, 700.0)
LAYOUT = packed_layout(640, 400)
RPY = (0.01, -0.03, 0.02)
BARE = Detail(textures=False, walls=False, vehicles=False)


def _clean(seed: int) -> Moment:
    """A drive whose lines are all solid and bright on a dark road, with nothing in the way."""
    drive = Drive(seed, 1)
    for _ in range(3):
        drive.step(0.05)
    moment = drive.moment()
    quiet = {"noise": 0, "bonnet": 9, "haze": 1e-5, "veil": 0, "kerb": 0, "cross_paint": 0}
    solid = {}
    for i in range(LINES):
        solid |= {f"line{i}_dash": 500, f"line{i}_double": 0}
        solid |= {f"line{i}_yellow": 0, f"line{i}_half": 0.08}
        solid |= {f"line{i}_paint": float(moment.scene[f"line{i}_paint"][0] > 0)}
    dark = {f"road_{c}": 0.05 for c in "rgb"} | {f"verge_{c}": 0.05 for c in "rgb"}
    bright = {f"white_{c}": 0.9 for c in "rgb"} | {"exposure": 1, "shoulder_tone": 0}
    changed = {n: np.array([v], np.float32) for n, v in (quiet | solid | dark | bright).items()}
    return dataclasses.replace(moment, scene=moment.scene | changed)


@pytest.mark.parametrize("seed", range(6))
def test_true_lines_lie_on_painted_markings(seed: int) -> None:
    moment = _clean(seed)
    truth = truth_of(moment)
    data = Painter(CAMERA, RPY, LAYOUT, detail=BARE)(one(moment.scene, 0))
    luma = data[: 640 * 400].reshape(400, 640).astype(float)
    matrix = CAMERA.matrix @ VIEW_FROM_DEVICE @ rot_from_euler(RPY)
    checked = 0
    ahead = np.linspace(45, 4, 400)
    assert truth.known[0, X_IDXS < 50].all()
    for line in truth.lane_lines[0, truth.painted[0]]:
        dense = [np.interp(ahead, X_IDXS, line[:, i]) for i in range(2)]
        x, y, depth = matrix @ np.stack([ahead, *dense])
        for row in range(max(0, int(y[0] / depth[0]) + 2), 400, 7):
            column = np.interp(row, y / depth, x / depth)
            start = round(column) - 30
            if row > y[-1] / depth[-1] or not 0 <= start < 580:
                continue
            strip = luma[row, start : start + 61]
            # The bright stretch of the row is centred on the true line.
            marked = np.flatnonzero(strip > 0.5 * (strip.max() + strip.min()))
            assert abs(start + marked.mean() - column) < 1.0
            checked += 1
    assert checked > 10


def test_rays_are_the_inverse_of_the_projection() -> None:
    camera = camera_values(CAMERA, RPY)
    u, v = np.meshgrid(np.float32([0, 100, 639]), np.float32([0, 250, 399]))
    rays = rays_of(camera, u, v)
    points = np.stack([np.ones_like(rays.n), rays.n, rays.m]).reshape(3, -1)
    x, y, depth = CAMERA.matrix @ VIEW_FROM_DEVICE @ rot_from_euler(RPY) @ points
    np.testing.assert_allclose(x / depth, u.ravel(), atol=1e-3)
    np.testing.assert_allclose(y / depth, v.ravel(), atol=1e-3)


def test_the_path_ahead_is_driven_as_the_plan_said() -> None:
    # Two seconds of steps without new kicks end where the plan of the first moment ends.
    drive = Drive(11, 64)
    drive.step(0.05)
    before = drive.moment()
    plan = truth_of(before).plan
    straight = (np.abs(before.scene["c2"]) < 1e-3) & ~before.has_lead & (before.speed > 5)
    for _ in range(40):
        drive.step(0.05)
        if drive.moment().pulse.any():
            straight &= drive.moment().pulse == 0
    travelled = drive.moment().scene["along"] - before.scene["along"]
    ahead = np.array([np.interp(2.0, 10 * (np.arange(33) / 32) ** 2, p[:, 0]) for p in plan])
    assert straight.sum() > 5
    # Acceleration is renewed at each step but foreseen only once: a fifth of a metre per second.
    np.testing.assert_allclose(ahead[straight], travelled[straight], atol=1.0)


def test_curvature_of_the_plan_is_that_of_the_road_when_centred() -> None:
    moment = Drive(3, 200).moment()
    zero = np.zeros_like(moment.offset)
    scene = moment.scene | {"c0": zero, "c1": zero}
    centred = dataclasses.replace(
        moment, scene=scene, offset=zero, offset_rate=zero, target=zero, yaw_error=zero
    )
    truth = truth_of(centred)
    moving = moment.speed > 3
    np.testing.assert_allclose(
        truth.curvature[moving], 2 * moment.scene["c2"][moving], rtol=1e-4, atol=1e-7
    )


def test_the_same_seed_paints_the_same_bytes_and_another_seed_others() -> None:
    frames = []
    for seed in (4, 4, 5):
        drive = Drive(seed, 1)
        drive.step(0.05)
        painter = Painter(CAMERA, RPY, LAYOUT, coarse=8, detail=PLAIN)
        frames.append(painter(one(drive.moment().scene, 0)))
    assert np.array_equal(frames[0], frames[1])
    assert not np.array_equal(frames[0], frames[2])


def test_a_coarse_picture_is_the_fine_one_seen_in_blocks() -> None:
    moment = _clean(2)
    fine, coarse = (
        Painter(CAMERA, RPY, LAYOUT, coarse=c, detail=BARE)(one(moment.scene, 0)).astype(float)
        for c in (1, 4)
    )
    assert np.abs(fine - coarse).mean() < 3


def test_frames_are_limited_range_bt601() -> None:
    moment = _clean(1)
    data = Painter(CAMERA, RPY, LAYOUT, detail=PLAIN)(one(moment.scene, 0))
    assert data.size == 640 * 400 * 3 // 2
    assert data[: 640 * 400].min() >= 16
    assert data[: 640 * 400].max() <= 235
    assert data[640 * 400 :].min() >= 16
    assert data[640 * 400 :].max() <= 240


def test_every_parameter_is_set_and_finite_over_a_long_drive() -> None:
    drive = Drive(8, 32)
    with np.errstate(all="raise", under="ignore"):
        for _ in range(200):
            drive.step(0.1)
            moment = drive.moment()
            truth_of(moment)
        for name in PARAMETERS:
            assert np.isfinite(moment.scene[name]).all(), name


def test_numpy_maths_keeps_float32() -> None:
    maths = NumpyMaths()
    x = np.float32([1.5, -2.5])
    for value in (maths.where(x > 0, x, 0.0), maths.floor(x), maths.maximum(x, 0.0)):
        assert value.dtype == np.float32
    assert maths.rint(np.float32([0.5, 1.5])).tolist() == [0, 2]
    assert maths.unsigned(np.float32([-1.0])).tolist() == [2**32 - 1]
