import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from modeld.errors import ModeldError
from modeld.fakes.executor import OUTPUT_SIZE, SLICES
from modeld.outputs import OutputParser, safe_exp, sigmoid, softmax

# The two-part networks of 2025-12 fused into one vector, and the mixture networks before them.
SMALL = {
    "meta": (0, 55),
    "desire_pred": (55, 87),
    "pose": (87, 99),
    "wide_from_device_euler": (99, 105),
    "road_transform": (105, 117),
    "lane_lines": (117, 645),
    "lane_lines_prob": (645, 653),
    "road_edges": (653, 917),
    "lead": (917, 1061),
    "lead_prob": (1061, 1064),
    "hidden_state": (1064, 1576),
    "plan": (1576, 2566),
    "desire_state": (2566, 2574),
}
NOTRE_DAME = {
    "plan": (0, 4955),
    "lane_lines": (4955, 5483),
    "lane_lines_prob": (5483, 5491),
    "road_edges": (5491, 5755),
    "lead": (5755, 5857),
    "lead_prob": (5857, 5860),
    "desire_state": (5860, 5868),
    "meta": (5868, 5921),
    "desire_pred": (5921, 5953),
    "pose": (5953, 5965),
    "wide_from_device_euler": (5965, 5971),
    "sim_pose": (5971, 5983),
    "road_transform": (5983, 5995),
    "desired_curvature": (5995, 5997),
    "hidden_state": (5997, 6509),
}

finite = arrays(np.float32, OUTPUT_SIZE, elements=st.floats(-50, 50, width=32))


def real_slices(path: Path, model: str) -> tuple[dict[str, tuple[int, int]], int]:
    metadata = json.loads(path.read_text())[model]
    size = metadata["output_shapes"]["outputs"][1]
    return {
        name: (start % size, size if stop is None else stop + size * (stop < 0))
        for name, (start, stop) in metadata["output_slices"].items()
    }, size


def test_functions() -> None:
    x = np.array([-100, -1, 0, 1, 11, 12, 100], np.float32)
    np.testing.assert_allclose(safe_exp(x), np.exp(np.minimum(x, 11)), rtol=1e-6)
    assert safe_exp(x)[-1] == safe_exp(x)[-3]
    np.testing.assert_allclose(sigmoid(np.array([0, 2], np.float32)), [0.5, 0.8807971], rtol=1e-6)
    assert sigmoid(np.array([-100], np.float32))[0] == pytest.approx(1 / (1 + np.exp(11)), rel=1e-5)
    np.testing.assert_allclose(
        softmax(np.log(np.array([[1, 3], [2, 2]], np.float32))), [[0.25, 0.75], [0.5, 0.5]], 1e-6
    )


def test_every_head_of_the_action_network() -> None:
    vector = np.arange(OUTPUT_SIZE, dtype=np.float32) / 1000
    outputs = OutputParser(SLICES, OUTPUT_SIZE).parse(vector)
    shapes = {
        "plan": (33, 15),
        "lane_lines": (4, 33, 2),
        "road_edges": (2, 33, 2),
        "lead": (3, 6, 4),
        "pose": (6,),
        "wide_from_device_euler": (3,),
        "road_transform": (6,),
        "action": (2,),
    }
    for name, shape in shapes.items():
        start, stop = SLICES[name]
        middle = (start + stop) // 2
        np.testing.assert_array_equal(outputs[name], vector[start:middle].reshape(shape))
        expected = np.exp(vector[middle:stop]).reshape(shape)
        np.testing.assert_allclose(outputs[f"{name}_stds"], expected, rtol=1e-6)
    for name in ("lane_lines_prob", "lead_prob", "meta"):
        expected = 1 / (1 + np.exp(-vector[slice(*SLICES[name])]))
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-6)
    assert outputs["desire_pred"].shape == (4, 8)
    np.testing.assert_allclose(outputs["desire_pred"].sum(axis=1), np.ones(4), rtol=1e-6)
    np.testing.assert_allclose(outputs["desire_state"].sum(), 1, rtol=1e-6)
    np.testing.assert_array_equal(outputs["hidden_state"], vector[2066:2578])


@pytest.mark.parametrize(("slices", "size"), [(SMALL, 2576), (NOTRE_DAME, 6512)])
def test_older_networks_are_known(slices: dict[str, tuple[int, int]], size: int) -> None:
    outputs = OutputParser(slices, size).parse(np.zeros(size, np.float32))
    assert outputs["plan"].shape == outputs["plan_stds"].shape == (33, 15)
    assert outputs["lead"].shape == outputs["lead_stds"].shape == (3, 6, 4)
    assert outputs["meta"].shape == (slices["meta"][1] - slices["meta"][0],)


def test_mixture_heads_of_a_real_vector(data_path: Callable[[str], Path]) -> None:
    """A real supercombo output: the mixtures, restated with the vector's own indices."""
    slices, size = real_slices(
        data_path("models/openpilot/metadata.json"),
        "supercombo_metadata__BluePilotDev__2024-06-08__6a8b572.pkl",
    )
    vector = np.load(data_path("outputs/openpilot/supercombo_6504_outputs.npy"))
    assert vector.shape == (1, size) == (1, 6504)
    outputs = OutputParser(slices, size).parse(vector.astype(np.float32))
    flat = vector[0].astype(np.float64)

    logits = flat[[990 + 991 * h for h in range(5)]]
    best = int(logits.argmax())
    plan = flat[991 * best : 991 * best + 495].reshape(33, 15)
    np.testing.assert_allclose(outputs["plan"], plan, rtol=1e-6)
    stds = np.exp(np.minimum(flat[991 * best + 495 : 991 * best + 990], 11)).reshape(33, 15)
    np.testing.assert_allclose(outputs["plan_stds"], stds, rtol=1e-4, atol=1e-37)
    weights = np.exp(logits - logits.max())
    np.testing.assert_allclose(
        outputs["plan_weights"][:, 0], np.sort(weights / weights.sum())[::-1], rtol=1e-4, atol=1e-30
    )
    np.testing.assert_array_equal(outputs["plan_hypotheses"][0], outputs["plan"])

    leads = flat[5755:5857].reshape(2, 51)
    for i in range(3):
        chosen = leads[int(leads[:, 48 + i].argmax())]
        np.testing.assert_allclose(outputs["lead"][i], chosen[:24].reshape(6, 4), rtol=1e-6)
    np.testing.assert_allclose(outputs["lead_weights"].sum(axis=0), np.ones(3), rtol=1e-6)

    np.testing.assert_allclose(outputs["lane_lines"].ravel(), flat[4955:5219], rtol=1e-6)
    np.testing.assert_allclose(outputs["pose"], flat[5948:5954], rtol=1e-6)
    np.testing.assert_allclose(outputs["desired_curvature"], flat[5990:5991], rtol=1e-6)
    np.testing.assert_array_equal(outputs["hidden_state"], vector[0, 5992:].astype(np.float32))


def test_shipped_metadata_is_parsed_or_refused_by_name(data_path: Callable[[str], Path]) -> None:
    path = data_path("models/openpilot/metadata.json")
    parsed = 0
    for model in json.loads(path.read_text()):
        slices, size = real_slices(path, model)
        lacking = {"plan", "meta", "lane_lines", "lead"} - slices.keys()
        if lacking:
            with pytest.raises(ModeldError, match="has no output .*" + min(lacking)):
                OutputParser(slices, size)
        else:
            outputs = OutputParser(slices, size).parse(np.zeros(size, np.float32))
            parsed += 1
            # One of them does not say what manoeuvre it sees: none.
            manoeuvre = np.full(8, 1 / 8) if "desire_state" in slices else np.eye(8)[0]
            np.testing.assert_allclose(outputs["desire_state"], manoeuvre, rtol=1e-6)
    assert parsed == 9


@settings(max_examples=30, deadline=None)
@given(finite)
def test_parsed_values_are_finite_and_probable(vector: np.ndarray) -> None:
    outputs = OutputParser(SLICES, OUTPUT_SIZE).parse(vector[None])
    assert all(np.isfinite(array).all() for array in outputs.values())
    for name in ("lane_lines_prob", "lead_prob", "meta", "desire_state", "desire_pred"):
        assert ((outputs[name] >= 0) & (outputs[name] <= 1)).all()


def test_missing_heads_are_named_all_at_once() -> None:
    slices = {k: v for k, v in SLICES.items() if k not in ("lead", "pose")}
    with pytest.raises(ModeldError, match="has no output lead, pose;"):
        OutputParser(slices, OUTPUT_SIZE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"plan": (917, 1900)}, "plan has 983 elements, expected 990 or 4955"),
        ({"meta": (800, 856)}, "meta has 56 elements, expected 48 or 53 or 55"),
        ({"pad": (2578, 2581)}, r"pad is \[2578, 2581\) of a vector of 2580"),
        ({"pad": (5, 5)}, r"pad is \[5, 5\)"),
    ],
)
def test_impossible_slices_are_named(change: dict[str, tuple[int, int]], message: str) -> None:
    with pytest.raises(ModeldError, match=message):
        OutputParser(SLICES | change, OUTPUT_SIZE)
