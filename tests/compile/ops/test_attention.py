"""Attention against its formula in numpy: groups, masks, caps, caches and windows."""

import numpy as np
import pytest
from single_node import feeds, node_model, ours, run

F = np.float32


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(F)


def expected(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    bias: np.ndarray | float = 0.0,
    softcap: float = 0.0,
) -> np.ndarray:
    """softmax(cap(q kᵀ / sqrt(d)) + bias) v in float64, key heads repeated in place."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1).astype(float), np.repeat(v, group, 1).astype(float)
    scores = q.astype(float) @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    scores = softcap * np.tanh(scores / softcap) if softcap else scores
    scores = scores + bias
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = np.nan_to_num(weights)
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


def test_query_groups_share_neighbouring_key_heads() -> None:
    q, k, v = draw(1, 6, 4, 8), draw(1, 3, 5, 8), draw(1, 3, 5, 7)
    np.testing.assert_allclose(run("Attention", q, k, v, opset=24), expected(q, k, v), atol=1e-6)


def test_a_query_that_may_see_no_key_gives_zeros() -> None:
    q, k, v = draw(1, 1, 3, 8), draw(1, 1, 4, 8), draw(1, 1, 4, 8)
    mask = np.ones((3, 4), bool)
    mask[1] = False
    found = run("Attention", q, k, v, mask, opset=24)
    bias = np.where(mask, 0.0, -np.inf)
    np.testing.assert_allclose(found, expected(q, k, v, bias), atol=1e-6)
    assert not found[0, 0, 1].any()


def test_the_cap_comes_before_the_mask() -> None:
    q, k, v = draw(1, 2, 3, 8), draw(1, 2, 4, 8), draw(1, 2, 4, 8)
    bias = np.where(np.arange(4) < 3, draw(3, 4), -np.inf).astype(F)
    found = run("Attention", q, k, v, bias, opset=24, softcap=0.5)
    np.testing.assert_allclose(found, expected(q, k, v, bias, 0.5), atol=1e-6)


def test_causal_with_a_past_sees_all_of_the_past() -> None:
    q, k, v = draw(1, 2, 3, 8), draw(1, 2, 3, 8), draw(1, 2, 3, 8)
    past_k, past_v = draw(1, 2, 5, 8), draw(1, 2, 5, 8)
    inputs = (q, k, v, None, past_k, past_v)
    model = node_model("Attention", inputs, 3, opset=24, is_causal=1)
    y, present_k, present_v = ours(model, feeds(model, inputs))
    bias = np.where(np.arange(8)[None] <= np.arange(3)[:, None] + 5, 0.0, -np.inf)
    np.testing.assert_array_equal(present_k, np.concatenate([past_k, k], 2))
    np.testing.assert_allclose(y, expected(q, present_k, present_v, bias), atol=1e-6)


@pytest.mark.parametrize(("left", "right"), [(1, -1), (0, 0), (2, 1), (-1, 1)])
def test_a_window_bounds_both_sides(left: int, right: int) -> None:
    q, k, v = draw(1, 1, 5, 4), draw(1, 1, 5, 4), draw(1, 1, 5, 4)
    ahead = np.arange(5)[None] - np.arange(5)[:, None]
    seen = (ahead >= -left if left >= 0 else True) & (ahead <= right if right >= 0 else True)
    found = run("Attention", q, k, v, opset=25, left_window_size=left, right_window_size=right)
    bias = np.where(seen, 0.0, -np.inf) + np.zeros((5, 5))
    np.testing.assert_allclose(found, expected(q, k, v, bias), atol=1e-6)


def test_padded_keys_are_not_seen() -> None:
    q, k, v = draw(2, 1, 2, 4), draw(2, 1, 5, 4), draw(2, 1, 5, 4)
    lengths = np.array([3, 5], np.int64)
    found = run("Attention", q, k, v, None, None, None, lengths, opset=24)
    bias = np.where(np.arange(5) < lengths.reshape(2, 1, 1, 1), 0.0, -np.inf)
    np.testing.assert_allclose(found, expected(q, k, v, bias), atol=1e-6)


def test_packed_heads_are_the_same_as_separate_ones() -> None:
    q, k, v = draw(1, 4, 6, 8), draw(1, 2, 5, 8), draw(1, 2, 5, 8)
    packed = [t.transpose(0, 2, 1, 3).reshape(1, t.shape[2], -1) for t in (q, k, v)]
    found = run("Attention", *packed, opset=24, q_num_heads=4, kv_num_heads=2)
    separate = run("Attention", q, k, v, opset=24)
    np.testing.assert_allclose(found.reshape(1, 6, 4, 8).transpose(0, 2, 1, 3), separate, atol=1e-6)


def test_linear_attention_is_the_recurrence() -> None:
    q, k, v = draw(1, 4, 6), draw(1, 4, 6), draw(1, 4, 4)
    found = run(
        "LinearAttention", q, k, v, opset=27, update_rule="linear", q_num_heads=2, kv_num_heads=2
    )
    heads = [t.reshape(4, 2, -1).astype(float) for t in (q, k, v)]
    state = np.zeros((2, 3, 2))
    for t in range(4):
        state += heads[1][t][:, :, None] * heads[2][t][:, None]
        step = np.einsum("hd,hdv->hv", heads[0][t], state) / np.sqrt(3)
        np.testing.assert_allclose(found[0, t], step.reshape(-1), atol=1e-5)
