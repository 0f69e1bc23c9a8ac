"""The reference network against its contract, onnxruntime and a numpy re-statement of its state."""

import base64
import math
import pickle
import re  # the readers of the metadata use it; the product does not
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import shape_inference

from compile.reference import build_reference
from compile.reference.heads import HEADS, X_IDXS, basis, output_slices
from compile.reference.topology import LARGE, SMALL, Topology
from compile.reference.weights import parameters, seeded
from modeld.errors import ModeldError

Array = npt.NDArray[Any]

# Facts of the driving models with an action head.
SLICES = {
    "lane_lines": (0, 528),
    "lane_lines_prob": (528, 536),
    "road_edges": (536, 800),
    "meta": (800, 855),
    "desire_pred": (855, 887),
    "pose": (887, 899),
    "wide_from_device_euler": (899, 905),
    "road_transform": (905, 917),
    "plan": (917, 1907),
    "lead": (1907, 2051),
    "lead_prob": (2051, 2054),
    "desire_state": (2054, 2062),
    "action": (2062, 2066),
    "hidden_state": (2066, 2578),
}
CONTRACT = {
    "new_img": (2, 6, 128, 256),
    "desire": (1, 8),
    "traffic_convention": (1, 2),
    "action_t": (1, 2),
    "state_img_q": (5, 6, 128, 256),
    "state_big_img_q": (5, 6, 128, 256),
    "state_feat_q": (96, 1, 512),
    "state_desire_q": (100, 1, 8),
}


@pytest.fixture(scope="module")
def small() -> onnx.ModelProto:
    return build_reference("small")


@pytest.fixture(scope="module")
def session(small: onnx.ModelProto) -> onnxruntime.InferenceSession:
    return _session(small)


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def _run(session: onnxruntime.InferenceSession, inputs: dict[str, Array]) -> dict[str, Array]:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def _zeros() -> dict[str, Array]:
    return {
        name: np.zeros(shape, np.uint8 if "img" in name else np.float32)
        for name, shape in CONTRACT.items()
    }


def test_the_contract_by_name_shape_and_dtype(session: onnxruntime.InferenceSession) -> None:
    found = {i.name: (tuple(i.shape), i.type) for i in session.get_inputs()}
    kinds = {name: "tensor(uint8)" if "img" in name else "tensor(float)" for name in CONTRACT}
    assert found == {name: (shape, kinds[name]) for name, shape in CONTRACT.items()}
    outputs = {o.name: (tuple(o.shape), o.type) for o in session.get_outputs()}
    state = {
        f"next_{name}": (shape, kinds[name])
        for name, shape in CONTRACT.items()
        if name.startswith("state_")
    }
    assert outputs == {"outputs": ((1, 2580), "tensor(float)")} | state


def test_every_operator_is_standard_and_of_opset_17(small: onnx.ModelProto) -> None:
    assert [(o.domain, o.version) for o in small.opset_import] == [("", 17)]
    assert {node.domain for node in small.graph.node} == {""}


def test_slices_are_those_of_driving_models_and_readable_as_such(small: onnx.ModelProto) -> None:
    expected = {name: slice(*bounds) for name, bounds in SLICES.items()} | {"pad": slice(-2, None)}
    assert output_slices() == expected
    metadata = {entry.key: entry.value for entry in small.metadata_props}
    content = base64.b64decode(metadata["output_slices"])
    assert pickle.loads(content) == expected  # noqa: S301 - our own bytes, read as upstream does
    # Byte for byte what Python itself would have written (protocol 4).
    assert content == pickle.dumps(expected, protocol=4)
    assert re.fullmatch(r"trained/small/[0-9a-f]{12}", metadata["model_checkpoint"])


def _macs(model: onnx.ModelProto) -> int:
    """Multiply-accumulates of Conv, Gemm and MatMul by their ONNX definition."""
    graph = shape_inference.infer_shapes(model).graph
    shapes = {
        value.name: [d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in [*graph.value_info, *graph.input, *graph.output]
    } | {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    total = 0
    for node in graph.node:
        out = math.prod(shapes.get(node.output[0], [0]))
        if node.op_type == "Conv":
            total += out * math.prod(shapes[node.input[1]][1:])
        elif node.op_type in ("Gemm", "MatMul"):
            total += out * shapes[node.input[0]][-1]
    return total


@pytest.mark.parametrize(
    ("topology", "least", "most"), [(SMALL, 60e6, 100e6), (LARGE, 600e6, 800e6)]
)
def test_cost_of_each_size(topology: Topology, least: float, most: float) -> None:
    macs = _macs(build_reference(topology.name))
    assert least <= macs <= most


def test_small_has_at_most_2_8_million_parameters(small: onnx.ModelProto) -> None:
    floats = [t for t in small.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    assert sum(math.prod(t.dims) for t in floats) <= 2.8e6


def test_both_sizes_share_their_operators() -> None:
    kinds = [{n.op_type for n in build_reference(s).graph.node} for s in ("small", "large")]
    assert kinds[0] == kinds[1]


def test_state_follows_the_queue_rules_for_210_frames(
    session: onnxruntime.InferenceSession,
) -> None:
    random = np.random.default_rng(5)
    inputs = _zeros()
    images = np.zeros((2, 5, 6, 128, 256), np.uint8)
    features = np.zeros((96, 512), np.float32)
    desires = np.zeros((100, 8), np.float32)
    for _ in range(210):
        # Cheap frames that differ: a flat grey each, since only the queue is under test.
        grey = random.integers(0, 256, (2, 1, 1, 1), np.uint8)
        inputs["new_img"] = np.broadcast_to(grey, (2, 6, 128, 256)).copy()
        inputs["desire"] = random.integers(0, 2, (1, 8)).astype(np.float32)
        out = _run(session, inputs)
        images = np.concatenate([images[:, 1:], inputs["new_img"][:, None]], axis=1)
        features = np.concatenate([features[1:], out["outputs"][:, 2066:2578]])
        desires = np.concatenate([desires[1:], inputs["desire"]])
        assert np.array_equal(out["next_state_img_q"], images[0])
        assert np.array_equal(out["next_state_big_img_q"], images[1])
        assert np.array_equal(out["next_state_feat_q"][:, 0], features)
        assert np.array_equal(out["next_state_desire_q"][:, 0], desires)
        inputs |= {name: out[f"next_{name}"] for name in CONTRACT if name.startswith("state_")}


@pytest.mark.parametrize(
    ("state", "row", "seen"),
    [
        # Of the incoming rows, those that the sampled steps fall on.
        *[("state_img_q", row, row == 1) for row in range(5)],
        *[("state_big_img_q", row, row == 1) for row in range(5)],
        *[("state_feat_q", row, row % 4 == 0) for row in (0, 1, 2, 3, 4, 92, 93, 95)],
        *[("state_desire_q", row, row > 0) for row in (0, 1, 2, 50, 99)],
    ],
)
def test_which_rows_of_the_state_reach_the_outputs(
    session: onnxruntime.InferenceSession, state: str, row: int, seen: bool
) -> None:
    base = _run(session, _zeros())["outputs"]
    inputs = _zeros()
    inputs[state][row] = 7
    changed = _run(session, inputs)["outputs"]
    assert (not np.array_equal(base, changed)) == seen


@pytest.mark.parametrize("name", ["desire", "traffic_convention", "action_t", "new_img"])
def test_every_input_reaches_the_outputs(session: onnxruntime.InferenceSession, name: str) -> None:
    base = _run(session, _zeros())["outputs"]
    inputs = _zeros()
    inputs[name][:] = 1
    assert not np.array_equal(base, _run(session, inputs)["outputs"])


@pytest.mark.parametrize("size", ["small", "large"])
def test_untrained_outputs_are_a_plausible_straight_road(size: str) -> None:
    inputs = _zeros()
    inputs["new_img"] = np.random.default_rng(1).integers(0, 256, CONTRACT["new_img"], np.uint8)
    out = _run(_session(build_reference(size, seed=0)), inputs)["outputs"][0]
    assert np.isfinite(out).all()
    assert np.array_equal(out[2578:], [0, 0])
    lines = out[:264].reshape(4, 33, 2)
    assert (np.diff(lines[:, :10, 0].mean(axis=1)) > 1).all()  # left to right
    plan = out[917 : 917 + 495].reshape(33, 15)
    assert plan[-1, 0] > 100
    log_std = out[264:528]
    assert (np.exp(np.minimum(log_std, 11)) < 20).all()


def test_another_seed_gives_another_output_and_the_same_seed_the_same_bytes() -> None:
    first, again, other = (build_reference("small", seed=seed) for seed in (3, 3, 4))
    assert first.SerializeToString() == again.SerializeToString()
    inputs = _zeros()
    results = [_run(_session(model), inputs)["outputs"] for model in (first, other)]
    assert not np.array_equal(*results)


def test_given_weights_are_used() -> None:
    weights = seeded(SMALL, 9)
    model = build_reference("small", weights=weights)
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    assert all(np.array_equal(stored[name], array) for name, array in weights.items())


def test_curves_hold_a_clothoid_at_millimetres() -> None:
    # Sideways path of a road whose curvature grows linearly: cubic in distance.
    curve = 1e-3 * X_IDXS**2 / 2 - 8e-6 * X_IDXS**3 / 6
    table = basis(33, 8).astype(np.float64)
    scale = 0.5 + 0.06 * X_IDXS
    terms, *_ = np.linalg.lstsq(table, curve / scale, rcond=None)
    assert np.abs(table @ terms * scale - curve)[:24].max() < 0.03


def test_heads_cover_the_vector_once() -> None:
    assert sum(head.width for head in HEADS) + 512 + 2 == 2580


def test_refusals_name_the_value() -> None:
    with pytest.raises(ModeldError, match="'medium'"):
        build_reference("medium")
    with pytest.raises(ModeldError, match="seed -1 is negative; use one from 0"):
        build_reference(seed=-1)
    weights = seeded(SMALL, 0)
    with pytest.raises(ModeldError, match=r"lack 'feature.bias'"):
        build_reference(weights={n: w for n, w in weights.items() if n != "feature.bias"})
    with pytest.raises(ModeldError, match=r"have 'more'"):
        build_reference(weights=weights | {"more": np.zeros(1, np.float32)})
    with pytest.raises(ModeldError, match=r"'feature.bias' is float32 \(3,\)"):
        build_reference(weights=weights | {"feature.bias": np.zeros(3, np.float32)})
    with pytest.raises(ModeldError, match=r"'feature.bias' holds"):
        build_reference(weights=weights | {"feature.bias": np.full(512, np.nan, np.float32)})
    with pytest.raises(ModeldError, match=r"block_2.depthwise.bias', which large has"):
        build_reference("large", weights=weights)


def test_parameters_are_named_once() -> None:
    names = [parameter.name for parameter in parameters(LARGE)]
    assert len(names) == len(set(names))
