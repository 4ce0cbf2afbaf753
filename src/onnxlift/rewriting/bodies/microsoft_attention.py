"""Bodies of ONNX Runtime's attention operators, with the projection that they may include, written with ONNX's
Attention. What they share is in attention_parts.py."""

from __future__ import annotations

import numpy as np

from .attention_parts import FILTER, AddedMask, Ints, attend, slices, split, thirds
from .body import BodyBuilder, Value, body, rank, size
from .microsoft_quant import MatMulIntegerToFloat


@body("Attention")
def Attention(
    b: BodyBuilder,
    input: Value,
    weights: Value,
    bias: Value | None,
    mask_index: Value | None,
    past: Value | None,
    attention_bias: Value | None,
    past_sequence_length: Value | None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = FILTER,
    num_heads: int,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: Ints | None = None,
    rotary_embedding_dim: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> list[Value | None]:
    """The weights of the projections to queries, keys and values are side by side in one matrix."""
    if do_rotary or past_present_share_buffer:
        b.fail("rotary embeddings, or a buffer that past and present share")
    projected = b.MatMul(input, weights)
    if bias is not None:
        projected = b.Add(projected, bias)
    sizes = qkv_hidden_sizes or thirds(b, size(weights, 1))
    mask = AddedMask(b, mask_index, attention_bias, mask_filter_value, input)
    return _from_projection(b, projected, sizes, mask, past, num_heads, scale, unidirectional)


@body("QAttention")
def QAttention(
    b: BodyBuilder,
    input: Value,
    weight: Value,
    bias: Value,
    input_scale: Value,
    weight_scale: Value,
    mask_index: Value | None,
    input_zero_point: Value | None,
    weight_zero_point: Value | None,
    past: Value | None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = FILTER,
    num_heads: int,
    past_present_share_buffer: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> list[Value | None]:
    """Attention whose projection is a product of quantised matrices."""
    if do_rotary or past_present_share_buffer:
        b.fail("rotary embeddings, or a buffer that past and present share")
    scales = (input_scale, weight_scale, input_zero_point, weight_zero_point)
    projected = MatMulIntegerToFloat(b, input, weight, *scales, bias)
    mask = AddedMask(b, mask_index, None, mask_filter_value, input, input_scale)
    sizes = thirds(b, size(weight, 1))
    return _from_projection(b, projected, sizes, mask, past, num_heads, scale, unidirectional)


def _from_projection(
    b: BodyBuilder,
    projected: Value,
    sizes: Ints,
    mask: AddedMask,
    past: Value | None,
    num_heads: int,
    scale: float,
    unidirectional: int,
) -> list[Value | None]:
    """Return the attention, and the present keys and values as one tensor."""
    q, k, v = split(b, projected, sizes)
    keys = values = None
    if past is not None:
        keys, values = (b.Gather(past, b.constant(np.asarray(i)), axis=0) for i in (0, 1))
    bias = mask.added(k, 1, keys)
    y, present_key, present_value = attend(b, q, k, v, bias, keys, values, num_heads, scale, unidirectional, b.wants(1))
    present = None
    if present_key is not None and present_value is not None:
        present = b.Concat(*(b.Unsqueeze(x, b.ints(0)) for x in (present_key, present_value)), axis=0)
    return [y, present]


@body("MultiHeadAttention")
def MultiHeadAttention(
    b: BodyBuilder,
    query: Value,
    key: Value | None,
    value: Value | None,
    bias: Value | None,
    key_padding_mask: Value | None,
    attention_bias: Value | None,
    past_key: Value | None,
    past_value: Value | None,
    past_sequence_length: Value | None,
    cache_indirection: Value | None,
    *,
    mask_filter_value: float = FILTER,
    num_heads: int,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> list[Value | None]:
    """The inputs come in one of four forms: queries, keys and values as (batch, length, features) each; all three
    packed as (batch, length, heads, 3, features); keys and values packed as (batch, length, heads, 2, features); or
    keys and values with the heads split off already."""
    if past_sequence_length is not None or cache_indirection is not None:
        b.fail("a buffer that past and present share")
    mask = AddedMask(b, key_padding_mask, attention_bias, mask_filter_value, query)
    q, k, v = _three(b, query, key, value)
    split_keys = rank(key) == 4
    if bias is not None:
        widths = _widths(b, query, value, bias)
        parts = slices(b, bias, widths)
        q, k, v = (
            x if split_keys and i else b.Add(x, part) for i, (x, part) in enumerate(zip((q, k, v), parts, strict=True))
        )
    added = mask.added(k, 2 if split_keys else 1, past_key)
    if not split_keys:
        options = (num_heads, scale, unidirectional, b.wants(1) or b.wants(2))
        return attend(b, q, k, v, added, past_key, past_value, *options)
    y, *present = attend(
        b, _with_heads(b, q, num_heads), k, v, added, past_key, past_value, None, scale, unidirectional, b.wants(1)
    )
    assert y is not None
    return [b.Reshape(b.Transpose(y, perm=[0, 2, 1, 3]), b.ints(0, 0, -1)), *present]


def _three(b: BodyBuilder, query: Value, key: Value | None, value: Value | None) -> list[Value]:
    """Return queries, keys and values as separate tensors."""
    if key is None:
        if rank(query) != 5:
            b.fail("it has no keys, and its queries are not packed with them")
        return [_unpacked(b, query, i) for i in range(3)]
    if value is None:
        if rank(key) != 5:
            b.fail("it has no values, and its keys are not packed with them")
        return [query, _unpacked(b, key, 0), _unpacked(b, key, 1)]
    return [query, key, value]


def _unpacked(b: BodyBuilder, packed: Value, index: int) -> Value:
    """Return one part of (batch, length, heads, parts, features), without the axis of heads."""
    part = b.Gather(packed, b.constant(np.asarray(index)), axis=3)
    return b.Reshape(part, b.ints(0, 0, -1))


def _with_heads(b: BodyBuilder, x: Value, heads: int) -> Value:
    return b.Transpose(b.Reshape(x, b.ints(0, 0, heads, -1)), perm=[0, 2, 1, 3])


def _widths(b: BodyBuilder, query: Value, value: Value | None, bias: Value) -> Ints:
    """Return how much of the bias belongs to the queries, the keys and the values."""
    total = size(bias, 0)
    width = size(query, 2) if rank(query) == 3 else None
    if width is None and isinstance(total, int):
        width = total // 3
    if not isinstance(width, int) or not isinstance(total, int):
        b.fail("the size of its bias is not known")
    return width, width, total - 2 * width


@body("DecoderMaskedMultiHeadAttention")
def DecoderMaskedMultiHeadAttention(
    b: BodyBuilder,
    query: Value,
    key: Value | None,
    value: Value | None,
    mask_index: Value | None,
    attention_bias: Value | None,
    past_key: Value | None,
    past_value: Value | None,
    past_sequence_length: Value | None,
    beam_width: Value | None,
    cache_indirection: Value | None,
    bias: Value | None,
    *,
    mask_filter_value: float = FILTER,
    num_heads: int,
    output_qk: int = 0,
    past_present_share_buffer: int = 0,
    scale: float = 0.0,
) -> list[Value | None]:
    """MultiHeadAttention for one query at a time."""
    if past_present_share_buffer or cache_indirection is not None:
        b.fail("a buffer that past and present share")
    if key is None or value is None:
        b.fail("its keys and values are packed with its queries")
    return MultiHeadAttention(
        b,
        query,
        key,
        value,
        bias,
        mask_index,
        attention_bias,
        past_key,
        past_value,
        None,
        None,
        mask_filter_value=mask_filter_value,
        num_heads=num_heads,
        scale=scale,
        unidirectional=0,
    )


@body("PackedMultiHeadAttention")
def PackedMultiHeadAttention(
    b: BodyBuilder,
    query: Value,
    key: Value | None,
    value: Value | None,
    bias: Value | None,
    token_offset: Value,
    cumulative_sequence_length: Value,
    attention_bias: Value | None,
    *,
    mask_filter_value: float = FILTER,
    num_heads: int,
    scale: float = 0.0,
) -> Value:
    """All sequences are joined: (tokens, features), or queries, keys and values packed as (tokens, heads, 3, features).
    A token sees only the tokens of its own sequence. The body follows the documentation, since ONNX Runtime's CPU build
    cannot run it."""
    if attention_bias is not None:
        b.fail("a bias of the scores")
    if key is None or value is None:
        if rank(query) != 4:
            b.fail("it has no keys or values, and its queries are not packed with them")
        packed = [b.Gather(query, b.constant(np.asarray(i)), axis=2) for i in range(3)]
        q, k, v = (b.Reshape(x, b.ints(0, -1)) for x in packed)
    else:
        q, k, v = query, key, value
    if bias is not None:
        total, width = size(bias, 0), size(query, 1) if rank(query) == 2 else None
        if not isinstance(total, int):
            b.fail("the size of its bias is not known")
        first = width if isinstance(width, int) else total // 3
        parts = slices(b, bias, (first, first, total - 2 * first))
        q, k, v = (b.Add(x, part) for x, part in zip((q, k, v), parts, strict=True))
    return _attend_packed(b, q, k, v, cumulative_sequence_length, num_heads, scale)


@body("PackedAttention")
def PackedAttention(
    b: BodyBuilder,
    input: Value,
    weights: Value,
    bias: Value,
    token_offset: Value,
    cumulative_sequence_length: Value,
    attention_bias: Value | None,
    *,
    num_heads: int,
    qkv_hidden_sizes: Ints | None = None,
    scale: float = 0.0,
) -> Value:
    """PackedMultiHeadAttention with its projection. The body follows the documentation, since ONNX Runtime's CPU build
    cannot run it."""
    if attention_bias is not None:
        b.fail("a bias of the scores")
    sizes = qkv_hidden_sizes or thirds(b, size(weights, 1))
    q, k, v = split(b, b.Add(b.MatMul(input, weights), bias), sizes)
    return _attend_packed(b, q, k, v, cumulative_sequence_length, num_heads, scale)


def _attend_packed(b: BodyBuilder, q: Value, k: Value, v: Value, ends: Value, heads: int, scale: float) -> Value:
    zero, one = (b.constant(np.asarray(n)) for n in (0, 1))
    token = b.Range(zero, b.Squeeze(b.Shape(q, start=0, end=1)), one)
    # The index of a token's sequence is the number of sequences that end before the token.
    ended = b.GreaterOrEqual(b.Unsqueeze(token, b.ints(1)), b.Cast(ends, to=7))
    sequence = b.ReduceSum(b.Cast(ended, to=7), b.ints(1), keepdims=0)
    same = b.Equal(b.Unsqueeze(sequence, b.ints(1)), sequence)
    q, k, v = (b.Unsqueeze(x, b.ints(0)) for x in (q, k, v))
    (y, *_) = attend(b, q, k, v, same, None, None, heads, scale, 0, False)
    assert y is not None
    return b.Squeeze(y, b.ints(0))


@body("RotaryEmbedding")
def RotaryEmbedding(
    b: BodyBuilder,
    input: Value,
    position_ids: Value,
    cos_cache: Value,
    sin_cache: Value,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Value:
    """If a single position is given, it is that of the first token. Without `num_heads`, a head has as many features as
    the caches rotate."""
    if is_packed_batching or scale != 1:
        b.fail("packed batches, or a scale")
    if rank(position_ids) == 1:
        zero, one = (b.constant(np.asarray(n)) for n in (0, 1))
        length = b.Shape(input, start=1, end=2) if rank(input) == 3 else b.Shape(input, start=2, end=3)
        position_ids = b.Unsqueeze(b.Add(b.Range(zero, b.Squeeze(length), one), position_ids), b.ints(0))
        if size(input, 0) != 1:
            position_ids = b.Expand(position_ids, b.Concat(b.Shape(input, start=0, end=1), b.ints(1), axis=0))
    if rank(input) == 3 and not num_heads:
        width, angles = size(input, 2), size(cos_cache, 1)
        if not isinstance(width, int) or not isinstance(angles, int):
            b.fail("the number of its heads is not known")
        num_heads = width // (2 * angles)
    return b.RotaryEmbedding(
        input,
        cos_cache,
        sin_cache,
        position_ids,
        interleaved=interleaved,
        num_heads=num_heads or None,
        rotary_embedding_dim=rotary_embedding_dim or None,
    )
