"""The tinygrad network equals the ONNX one, on the same weights."""

import numpy as np
import onnxruntime
from tinygrad import Tensor

from compile.reference.graph import assemble
from compile.reference.topology import Topology
from compile.reference.weights import seeded
from compile.training.driving.model import (
    heads,
    remember,
    sequence_outputs,
    to_tensors,
    vision,
)

DEVICE = "CL"
# Every kind of layer once: each further kernel costs a second of compiling.
TINY = Topology("tiny", 4, (8, 8, 8, 8), (0, 1, 0, 0), (2, 2), 16, 2, 16)


def _tensor(array: np.ndarray) -> Tensor:
    return Tensor(array, device=DEVICE)


def test_one_turn_equals_onnxruntime() -> None:
    random = np.random.default_rng(2)
    weights = seeded(TINY, 7)
    inputs = {
        "new_img": random.integers(0, 256, (2, 6, 128, 256), np.uint8),
        "state_img_q": random.integers(0, 256, (5, 6, 128, 256), np.uint8),
        "state_big_img_q": random.integers(0, 256, (5, 6, 128, 256), np.uint8),
        "state_feat_q": random.normal(size=(96, 1, 512)).astype(np.float32),
        "state_desire_q": random.integers(0, 2, (100, 1, 8)).astype(np.float32),
        "desire": np.eye(1, 8, 3, dtype=np.float32),
        "traffic_convention": np.array([[0, 1]], np.float32),
        "action_t": np.array([[0.3, 0.5]], np.float32),
    }
    model = assemble(TINY, weights, "test")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(["outputs"], inputs)[0]

    tensors = to_tensors(weights, DEVICE)
    images = [
        _tensor(np.concatenate([inputs[state][1], inputs["new_img"][camera]])[None])
        for camera, state in enumerate(("state_img_q", "state_big_img_q"))
    ]
    feature = vision(tensors, TINY, *images)
    past = _tensor(inputs["state_feat_q"][::4, 0])
    queue = np.concatenate([inputs["state_desire_q"][1:, 0], inputs["desire"]])
    desires = queue.reshape(25, 4, 8).max(axis=1)
    memory = remember(tensors, past.cat(feature)[None], _tensor(desires)[None])
    out = heads(
        tensors,
        TINY,
        feature,
        memory,
        _tensor(inputs["traffic_convention"]),
        _tensor(inputs["action_t"]),
    ).numpy()
    np.testing.assert_allclose(feature.numpy(), expected[:, 2066:2578], rtol=0, atol=2e-5)
    np.testing.assert_allclose(out, expected[:, :2066], rtol=2e-5, atol=2e-4)


def test_a_sequence_is_turns_over_a_queue_that_starts_at_zero() -> None:
    random = np.random.default_rng(3)
    tensors = to_tensors(seeded(TINY, 1), DEVICE)
    features = random.normal(size=(2, 30, 512)).astype(np.float32)
    desires = random.integers(0, 2, (2, 30, 8)).astype(np.float32)
    traffic = random.normal(size=(2, 30, 2)).astype(np.float32)
    action_t = random.normal(size=(2, 30, 2)).astype(np.float32)
    together = sequence_outputs(
        tensors, TINY, *(_tensor(a) for a in (features, desires, traffic, action_t))
    ).numpy()
    for sequence, step in ((0, 0), (1, 7), (0, 29)):
        window = np.zeros((25, 520), np.float32)
        known = np.concatenate([features, desires], axis=2)[sequence, max(0, step - 24) : step + 1]
        window[25 - len(known) :] = known
        memory = remember(tensors, _tensor(window[None, :, :512]), _tensor(window[None, :, 512:]))
        alone = heads(
            tensors,
            TINY,
            _tensor(features[sequence, step][None]),
            memory,
            _tensor(traffic[sequence, step][None]),
            _tensor(action_t[sequence, step][None]),
        ).numpy()
        np.testing.assert_allclose(together[sequence, step], alone[0], rtol=1e-5, atol=1e-4)
