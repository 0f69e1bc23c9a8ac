"""Scaled dot-product attention, its linear-time kin, and rotary position embedding."""

from dataclasses import dataclass

from tinygrad import Tensor, dtypes

from compile.ops.registry import Op
from compile.values import dtype_of


def masked_softmax(scores: Tensor) -> Tensor:
    """Softmax over the last axis; a row of only -inf gives zeros instead of NaN."""
    top = scores.max(-1, keepdim=True)
    weights = (scores - (top == -float("inf")).where(0, top)).exp()
    total = weights.sum(-1, keepdim=True)
    return weights / (total == 0).where(1, total)


def _heads(x: Tensor, count: int) -> Tensor:
    """(B, S, heads * size) → (B, heads, S, size)."""
    return x.reshape(x.shape[0], x.shape[1], count, -1).permute(0, 2, 1, 3)


@dataclass(frozen=True)
class _Visibility:
    """Which keys a query may see; a query at row i stands at position offset + i."""

    queries: int
    keys: int
    offset: Tensor | int
    causal: bool
    left: int
    right: int

    def allowed(self) -> Tensor | None:
        """Boolean, broadcastable to (batch, heads, queries, keys); None where all may be seen."""
        if not self.causal and self.left < 0 and self.right < 0:
            return None
        row = Tensor.arange(self.queries, dtype=dtypes.int32).reshape(1, 1, -1, 1)
        key = Tensor.arange(self.keys, dtype=dtypes.int32).reshape(1, 1, 1, -1)
        ahead = key - row - self.offset
        allowed = (ahead <= 0) if self.causal else (ahead == ahead)
        if self.left >= 0:
            allowed = allowed & (ahead >= -self.left)
        return allowed & (ahead <= self.right) if self.right >= 0 else allowed


def _with_mask(scores: Tensor, mask: Tensor | None, allowed: Tensor | None) -> Tensor:
    """Scores with the mask added and what is not allowed set to -inf."""
    if mask is not None:
        missing = scores.shape[-1] - mask.shape[-1]
        value = False if mask.dtype == dtypes.bool else -float("inf")
        mask = mask.pad((*(None,) * (mask.ndim - 1), (0, missing)), value=value)
        if mask.dtype == dtypes.bool:
            allowed = mask if allowed is None else mask & allowed
        else:
            scores = scores + mask
    return scores if allowed is None else allowed.where(scores, -float("inf"))


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    nonpad_kv_seqlen: Tensor | None = None,
    is_causal: int = 0,
    kv_num_heads: int = 0,
    left_window_size: int = -1,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int = 0,
) -> tuple[Tensor, ...]:
    """softmax(q kᵀ scale, capped and masked) v, with the keys and values after the past ones.

    Groups of query heads share one key/value head each, in order. q and k are scaled by
    sqrt(scale) each, and float16 is computed in float32, so that products do not overflow.
    """
    packed = q.ndim == 3
    if packed:
        q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    present_key = k if past_key is None else past_key.cat(k, dim=2)
    present_value = v if past_value is None else past_value.cat(v, dim=2)
    group = q.shape[1] // present_key.shape[1]
    keys = present_key.repeat_interleave(group, 1) if group > 1 else present_key
    values = present_value.repeat_interleave(group, 1) if group > 1 else present_value

    kind = q.dtype
    if kind == dtypes.float16:
        q, keys, values = (t.cast(dtypes.float32) for t in (q, keys, values))
    root = (scale if scale is not None else q.shape[-1] ** -0.5) ** 0.5
    raw = (q * root) @ (keys * root).transpose(-1, -2)
    capped = (raw / softcap).tanh() * softcap if softcap > 0 else raw
    offset: Tensor | int = 0 if past_key is None else past_key.shape[2]
    queries, count = raw.shape[-2:]
    length = None
    if nonpad_kv_seqlen is not None:
        length = nonpad_kv_seqlen.cast(dtypes.int32).reshape(-1, 1, 1, 1)
        offset = length - queries if past_key is None else offset
    sight = _Visibility(
        queries, count, offset, bool(is_causal), left_window_size, right_window_size
    )
    biased = _with_mask(capped, attn_mask, sight.allowed())
    if length is not None:
        valid = Tensor.arange(count, dtype=dtypes.int32).reshape(1, 1, 1, -1) < length
        biased = valid.where(biased, -float("inf"))
    wide = biased.cast(dtype_of(softmax_precision)) if softmax_precision else biased
    weights = masked_softmax(wide).cast(q.dtype)
    y = (weights @ values).cast(kind)
    if packed:
        y = y.permute(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)
    scores = (raw, capped, biased, weights)[qk_matmul_output_mode].cast(kind)
    return y, present_key, present_value, scores


def rotary_embedding(
    x: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    position_ids: Tensor | None = None,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Pairs of each head's first elements turned by their position's angle."""
    heads = x.permute(0, 2, 1, 3) if x.ndim == 4 else x.unflatten(-1, (num_heads, -1))
    turned = rotary_embedding_dim or heads.shape[-1]
    if position_ids is not None:
        cos_cache, sin_cache = cos_cache[position_ids], sin_cache[position_ids]
    cos, sin = cos_cache.unsqueeze(2), sin_cache.unsqueeze(2)
    front, rest = heads[..., :turned], heads[..., turned:]
    half = turned // 2
    if interleaved:
        first, second = front[..., 0::2], front[..., 1::2]
    else:
        first, second = front[..., :half], front[..., half:]
    real, imaginary = first * cos - second * sin, first * sin + second * cos
    if interleaved:
        front = real.stack(imaginary, dim=-1).flatten(-2)
    else:
        front = real.cat(imaginary, dim=-1)
    y = front.cat(rest, dim=-1) if rest.shape[-1] else front
    return y.permute(0, 2, 1, 3) if x.ndim == 4 else y.flatten(2)


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past_state: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
    chunk_size: int = 64,
) -> tuple[Tensor, Tensor]:
    """The recurrence S ← decay S + beta k ⊗ (v - Sᵀk), o = scale Sᵀq, one step per token.

    `update_rule` says which of decay and the delta term take part.
    """
    gated, delta = "gated" in update_rule, "delta" in update_rule
    if update_rule not in ("linear", "gated", "delta", "gated_delta"):
        raise ValueError(
            f"update_rule {update_rule!r} is none of linear, gated, delta, gated_delta"
        )
    q, k, v = _heads(query, q_num_heads), _heads(key, kv_num_heads), _heads(value, kv_num_heads)
    batch, _, steps, width = k.shape
    group, factor = q_num_heads // kv_num_heads, scale or q.shape[-1] ** -0.5
    compute = dtypes.float64 if query.dtype == dtypes.float64 else dtypes.float32
    q, k, v = q.cast(compute), k.cast(compute), v.cast(compute)
    state = past_state
    if state is None:
        state = Tensor.zeros(batch, kv_num_heads, width, v.shape[-1], dtype=compute, buffer=False)
    state = state.cast(compute)
    keep = None if decay is None else _heads(decay, kv_num_heads).cast(compute).exp()
    rate = None
    if beta is not None:
        rate = beta.permute(0, 2, 1).unsqueeze(-1).cast(compute)
    outputs = []
    for t in range(steps):
        column, new = k[:, :, t].unsqueeze(-1), v[:, :, t].unsqueeze(-2)
        if gated and keep is not None:
            state = state * keep[:, :, t].unsqueeze(-1)
        if delta and rate is not None:
            new = (new - (state * column).sum(-2, keepdim=True)) * rate[:, :, t].unsqueeze(-1)
        # Of its own buffer: a chain of steps in one kernel would repeat all earlier ones.
        state = (state + column * new).contiguous()
        shared = state.repeat_interleave(group, 1) if group > 1 else state
        outputs.append((shared * q[:, :, t].unsqueeze(-1)).sum(-2) * factor)
    y = outputs[0].stack(*outputs[1:], dim=1).reshape(batch, steps, -1)
    result_state = state if past_state is None else state.cast(past_state.dtype)
    return y.cast(query.dtype), result_state


OPS = (
    Op("Attention", attention),
    Op("RotaryEmbedding", rotary_embedding),
    Op("LinearAttention", linear_attention),
)
