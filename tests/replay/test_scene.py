"""Where things are in the picture, and what a message says of the road."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import msgschema
from modeld.calibration import MEDMODEL, Intrinsics, warp_matrix
from modeld.replay.scene import Projection, scene_of

CAMERA = Intrinsics(1344, 760, 1141.5)


def test_known_places_in_the_picture() -> None:
    level = Projection(CAMERA, (0.0, 0.0, 0.0))
    points = np.array([[100.0, 0.0, 0.0], [10.0, 2.0, 0.0], [10.0, 0.0, 1.22]])
    wanted = [[672, 380], [672 + 1141.5 * 0.2, 380], [672, 380 + 1141.5 * 0.122]]
    np.testing.assert_allclose(level(points), wanted, atol=1e-9)


def test_pitch_and_yaw_move_the_vanishing_point() -> None:
    # A camera that looks down (positive pitch here) sees the horizon higher.
    ahead = np.array([[1e9, 0.0, 0.0]])
    ((_, y),) = Projection(CAMERA, (0.0, 0.02, 0.0))(ahead)
    assert y == pytest.approx(380 - 1141.5 * np.tan(0.02))
    ((x, _),) = Projection(CAMERA, (0.0, 0.0, 0.01))(ahead)
    assert x == pytest.approx(672 + 1141.5 * np.tan(0.01))


@settings(deadline=None)
@given(
    st.tuples(*[st.floats(-0.05, 0.05)] * 3),
    st.floats(5, 100),
    st.floats(-3, 3),
    st.floats(-1, 2),
)
def test_projection_and_warp_agree(
    rpy: tuple[float, float, float], x: float, y: float, z: float
) -> None:
    """A point seen by the network's own level camera, taken through the warp, is where we draw."""
    virtual = MEDMODEL.matrix @ [y, z, x]
    through_warp = warp_matrix(rpy, CAMERA, MEDMODEL) @ (virtual / virtual[2])
    ((u, v),) = Projection(CAMERA, rpy)(np.array([[x, y, z]]))
    assert (u, v) == pytest.approx(tuple(through_warp[:2] / through_warp[2]), abs=1e-6)


def test_points_behind_the_camera_are_nowhere() -> None:
    places = Projection(CAMERA, (0, 0, 0))(np.array([[-5.0, 1.0, 1.0], [0.0, 1.0, 1.0]]))
    assert np.isnan(places).all()


def test_a_ribbon_lies_flat_and_begins_a_metre_ahead() -> None:
    x = np.array([0.0, 5.0, 50.0])
    line = np.stack([x, np.full(3, 2.0), np.full(3, 1.2)], -1)
    left, right, distance = Projection(CAMERA, (0, 0, 0)).ribbon(line, 0.5)
    assert distance[0] == pytest.approx(1.0)
    assert distance[-1] == pytest.approx(50.0)
    np.testing.assert_allclose(left[:, 1], right[:, 1])
    np.testing.assert_allclose((right - left)[:, 0], 1141.5 / distance)
    np.testing.assert_allclose((left + right)[:, 0] / 2, 672 + 1141.5 * 2 / distance)


@pytest.mark.parametrize("x", [[], [1.0], [0.0, 0.5, 0.9], [np.nan] * 3, [9.0, 5.0, 1.0]])
def test_a_line_with_nothing_ahead_has_no_ribbon(x: list[float]) -> None:
    points = np.array([[value, 0.0, 1.0] for value in x]).reshape(-1, 3)
    _, _, distance = Projection(CAMERA, (0, 0, 0)).ribbon(points, 0.5)
    assert len(distance) == 0


def test_a_line_that_turns_back_is_cut_there() -> None:
    points = np.array([[1.0, 0, 1], [10.0, 0, 1], [20.0, 0, 1], [15.0, 9, 1], [30.0, 0, 1]])
    _, _, distance = Projection(CAMERA, (0, 0, 0)).ribbon(points, 0.5)
    assert distance[-1] == pytest.approx(30.0)


def test_a_message_becomes_a_scene() -> None:
    event = msgschema.load().Event.new_message(valid=True)
    model = event.init("modelV2")
    model.frameId = 42
    model.position.x, model.position.y, model.position.z = [0.0, 9.0], [0.0, 1.0], [0.0, 0.1]
    model.velocity.x = [12.0]
    for line, y in zip(model.init("laneLines", 4), (-5.0, -2.0, 2.0, 5.0), strict=True):
        line.x, line.y, line.z = [0.0, 50.0], [y, y], [1.2, 1.2]
    model.laneLineProbs, model.laneLineStds = [0.1, 0.9, 0.8, 0.2], [0.5, 0.1, 0.1, 0.4]
    for edge in model.init("roadEdges", 2):
        edge.x, edge.y, edge.z = [0.0], [7.0], [1.2]
    model.roadEdgeStds = [0.25, 3.0]
    lead = model.init("leadsV3", 1)[0]
    lead.prob, lead.x, lead.y, lead.v = 0.75, [40.0], [0.5], [11.0]
    model.action.desiredCurvature = 0.001
    model.modelExecutionTime = 0.02
    model.confidence = "green"
    scene = scene_of(event.as_reader())
    assert (scene.frame_id, scene.valid, scene.speed) == (42, True, 12.0)
    np.testing.assert_allclose(scene.path, [[0, 0, 0], [9, 1, 0.1]], rtol=1e-6)
    assert [line.probability for line in scene.lane_lines] == pytest.approx([0.1, 0.9, 0.8, 0.2])
    assert scene.lane_lines[2].points[1].tolist() == pytest.approx([50.0, 2.0, 1.2])
    assert [edge.probability for edge in scene.road_edges] == [0.75, 0.0]
    assert (scene.leads[0].x, scene.leads[0].y, scene.leads[0].speed) == (40.0, 0.5, 11.0)
    assert (scene.confidence, scene.own_lines) == ("green", (1, 2))


def test_an_empty_message_is_an_empty_scene() -> None:
    event = msgschema.load().Event.new_message()
    event.init("modelV2").init("leadsV3", 3)
    scene = scene_of(event.as_reader())
    assert scene.path.shape == (0, 3)
    assert (scene.lane_lines, scene.road_edges, scene.leads, scene.speed) == ((), (), (), 0.0)
