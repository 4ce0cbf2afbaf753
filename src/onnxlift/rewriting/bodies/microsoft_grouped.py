"""GroupQueryAttention of ONNX Runtime: a head of keys serves several of queries, and new keys go behind the past ones.

    GroupQueryAttention(q, k, v, past, seqlens_k, total)
        ->   RotaryEmbedding, ScatterElements into the caches, Attention with a mask of what each query sees

The caches have room for `total` keys, and each sequence has its own length: `seqlens_k` is the place of its last token.
"""

from __future__ import annotations

import math

import numpy as np

from .body import BodyBuilder, Value, body, size

INT64 = 7


@body("GroupQueryAttention")
def GroupQueryAttention(
    b: BodyBuilder,
    query: Value,
    key: Value | None,
    value: Value | None,
    past_key: Value | None,
    past_value: Value | None,
    seqlens_k: Value,
    total_sequence_length: Value,
    cos_cache: Value | None,
    sin_cache: Value | None,
    position_ids: Value | None,
    attention_bias: Value | None,
    head_sink: Value | None,
    k_scale: Value | None,
    v_scale: Value | None,
    q_norm_weight: Value | None,
    k_norm_weight: Value | None,
    *,
    causal: int = 1,
    do_rotary: int = 0,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    qk_norm_epsilon: float = 1e-6,
    qk_output: int = 0,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    sliding_window_cache: int = 0,
    smooth_softmax: int = -1,
    softcap: float = 0.0,
    v_quant_type: str = "NONE",
) -> list[Value | None]:
    """Queries, keys and values are (batch, length, heads * features). Without keys, all three are side by side in the
    queries."""
    if k_quant_type != "NONE" or v_quant_type != "NONE" or sliding_window_cache or b.wants(3):
        b.fail("a quantised or sliding cache, or the scores as a result")
    q, k, v = _heads(b, query, key, value, num_heads, kv_num_heads)
    if q_norm_weight is not None and k_norm_weight is not None:
        q = b.RMSNormalization(q, q_norm_weight, axis=-1, epsilon=qk_norm_epsilon)
        k = b.RMSNormalization(k, k_norm_weight, axis=-1, epsilon=qk_norm_epsilon)
    last = b.Reshape(b.Cast(seqlens_k, to=INT64), b.ints(-1))
    total = b.Reshape(b.Cast(total_sequence_length, to=INT64), b.ints(1))
    places = _places(b, query, last, total)
    if do_rotary:
        if cos_cache is None or sin_cache is None:
            b.fail("rotary embeddings without tables")
        turn = places if position_ids is None else position_ids
        rotated = _rotated_features(b, query, num_heads if key is not None else num_heads + 2 * kv_num_heads, cos_cache)
        options = {"interleaved": rotary_interleaved or None, "rotary_embedding_dim": rotated}
        q, k = (b.RotaryEmbedding(x, cos_cache, sin_cache, turn, **options) for x in (q, k))
    keys, values = _put_behind(b, past_key, k, places, total), _put_behind(b, past_value, v, places, total)
    visible = _visible(b, keys, places, last, bool(causal), local_window_size)
    sink = head_sink
    if sink is None and smooth_softmax > 0:
        sink = b.Expand(b.number(0, query), b.ints(num_heads))
    mask = visible if attention_bias is None else _biased(b, attention_bias, visible, keys, query)
    if not softcap and sink is None:
        attended = b.Attention(q, keys, values, mask, scale=scale or None)
    else:
        width = _features(b, query, num_heads if key is not None else num_heads + 2 * kv_num_heads)
        factor = scale or 1 / math.sqrt(width)
        if attention_bias is None:
            mask = b.Where(visible, b.number(0, query), b.number(-math.inf, query))
        grouped = _Grouped(b, query, num_heads, kv_num_heads)
        attended = grouped.attend(q, keys, values, mask, sink, factor, softcap)
    y = b.Reshape(b.Transpose(attended, perm=[0, 2, 1, 3]), b.ints(0, 0, -1))
    return [y, keys, values]


def _features(b: BodyBuilder, query: Value, heads: int) -> int:
    """Return how many features a head has."""
    width = size(query, 2)
    if not isinstance(width, int):
        b.fail("the size of its queries is not known")
    return width // heads


def _rotated_features(b: BodyBuilder, query: Value, heads: int, cos: Value) -> int | None:
    """Return how many features of a head are rotated; None if all are."""
    angles = size(cos, 1)
    if not isinstance(angles, int):
        b.fail("the size of its rotary tables is not known")
    return None if 2 * angles == _features(b, query, heads) else 2 * angles


def _heads(
    b: BodyBuilder, query: Value, key: Value | None, value: Value | None, heads: int, kv_heads: int
) -> list[Value]:
    """Return queries, keys and values as (batch, heads, length, features)."""

    def split_off(x: Value, count: int) -> Value:
        return b.Transpose(b.Reshape(x, b.ints(0, 0, count, -1)), perm=[0, 2, 1, 3])

    if key is None or value is None:
        packed = split_off(query, heads + 2 * kv_heads)
        return b.several(3, "Split", packed, b.ints(heads, kv_heads, kv_heads), axis=1)
    return [split_off(query, heads), split_off(key, kv_heads), split_off(value, kv_heads)]


def _places(b: BodyBuilder, query: Value, last: Value, total: Value) -> Value:
    """Return the place of each new token in its sequence, (batch, length). A prompt begins at the start."""
    length = b.Shape(query, start=1, end=2)
    after = b.Add(b.Sub(last, length), b.ints(1))
    before = b.Where(b.Equal(total, length), b.ints(0), after)
    zero, one = (b.constant(np.asarray(number)) for number in (0, 1))
    return b.Add(b.Unsqueeze(before, b.ints(1)), b.Range(zero, b.Squeeze(length), one))


def _put_behind(b: BodyBuilder, past: Value | None, new: Value, places: Value, total: Value) -> Value:
    """Return `past` with the new keys or values at their places, and with room for `total` of them."""
    sizes = b.Shape(new)
    before, after = b.Slice(sizes, b.ints(0), b.ints(2)), b.Slice(sizes, b.ints(3), b.ints(4))
    missing = total if past is None else b.Max(b.Sub(total, b.Shape(past, start=2, end=3)), b.ints(0))
    zeros = b.Expand(b.number(0, b.inputs[0] or new), b.Concat(before, missing, after, axis=0))
    room = zeros if past is None else b.Concat(past, zeros, axis=2)
    indices = b.Expand(b.Unsqueeze(places, b.ints(1, 3)), sizes)
    return b.ScatterElements(room, indices, new, axis=2)


def _visible(b: BodyBuilder, keys: Value, places: Value, last: Value, causal: bool, window: int) -> Value:
    """Return which keys each query sees, (batch, 1, length, keys)."""
    zero, one = (b.constant(np.asarray(number)) for number in (0, 1))
    key = b.Range(zero, b.Squeeze(b.Shape(keys, start=2, end=3)), one)
    own = b.Unsqueeze(places, b.ints(1, 3))
    end = own if causal else b.Add(b.Mul(own, b.ints(0)), b.Unsqueeze(last, b.ints(1, 2, 3)))
    visible = b.LessOrEqual(key, end)
    return visible if window < 0 else b.And(visible, b.Greater(key, b.Sub(own, b.ints(window))))


def _biased(b: BodyBuilder, bias: Value, visible: Value, keys: Value, like: Value) -> Value:
    """Return the bias of the scores, with room for all keys, and minus infinity where a key is not seen."""
    missing = b.Sub(b.Shape(keys, start=2, end=3), b.Shape(bias, start=-1))
    padded = b.Pad(bias, b.Concat(b.ints(0, 0, 0, 0, 0, 0, 0), missing, axis=0), b.number(0, like))
    return b.Where(visible, padded, b.number(-math.inf, like))


class _Grouped:
    """Attention that ONNX's own cannot express: with a cap of the scores, or a sink that counts as a key."""

    def __init__(self, b: BodyBuilder, like: Value, heads: int, kv_heads: int) -> None:
        self.b = b
        self.like = like
        self.heads = heads
        self.kv_heads = kv_heads

    def attend(
        self, q: Value, k: Value, v: Value, mask: Value, sink: Value | None, scale: float, softcap: float
    ) -> Value:
        """Return the attention, (batch, heads, length, features)."""
        b = self.b
        groups = self.heads // self.kv_heads
        q = b.Reshape(q, b.Concat(b.ints(0, self.kv_heads, groups), b.Shape(q, start=2), axis=0))
        k, v = b.Unsqueeze(k, b.ints(2)), b.Unsqueeze(v, b.ints(2))
        scores = b.Mul(b.MatMul(q, b.Transpose(k, perm=[0, 1, 2, 4, 3])), b.number(scale, self.like))
        if softcap:
            cap = b.number(softcap, self.like)
            scores = b.Mul(b.Tanh(b.Div(scores, cap)), cap)
        scores = b.Reshape(scores, b.Concat(b.ints(0, self.heads), b.Shape(scores, start=3), axis=0))
        weights = self._softmax(b.Add(scores, mask), sink)
        weights = b.Reshape(weights, b.Concat(b.ints(0, self.kv_heads, groups), b.Shape(weights, start=2), axis=0))
        y = b.MatMul(weights, v)
        return b.Reshape(y, b.Concat(b.ints(0, self.heads), b.Shape(y, start=3), axis=0))

    def _softmax(self, scores: Value, sink: Value | None) -> Value:
        b = self.b
        if sink is None:
            return b.Softmax(scores, axis=-1)
        shape = b.Concat(b.Shape(scores, end=3), b.ints(1), axis=0)
        column = b.Expand(b.Reshape(sink, b.ints(1, self.heads, 1, 1)), shape)
        weights = b.Softmax(b.Concat(scores, column, axis=-1), axis=-1)
        return b.Slice(weights, b.ints(0), b.ints(-1), b.ints(3))
