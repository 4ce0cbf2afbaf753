"""Bodies of ONNX Runtime's normalisations, with the residual sum or the embeddings before them.

SkipLayerNormalization(input, skip, gamma, beta)   ->   LayerNormalization(Add(input, skip), gamma, beta)
"""

from __future__ import annotations

import numpy as np

from onnxlift.ir.graph.constants import constant

from .body import BodyBuilder, Value, body, rank
from .microsoft_fused import channels_first, channels_last

_EPSILON = 1e-12
_ZERO, _ONE = np.asarray(0), np.asarray(1)


@body("SimplifiedLayerNormalization", domain="")
def SimplifiedLayerNormalization(
    b: BodyBuilder, X: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Value:
    """RMSNormalization, under the name that ONNX Runtime gave it before ONNX had it. It is still in the default
    domain."""
    return b.RMSNormalization(X, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)


@body("SkipLayerNormalization")
def SkipLayerNormalization(
    b: BodyBuilder,
    input: Value,
    skip: Value,
    gamma: Value,
    beta: Value | None,
    bias: Value | None,
    *,
    epsilon: float = _EPSILON,
) -> list[Value | None]:
    """The outputs are the norm, its mean and inverse deviation (which only training reads), and the sum."""
    total = _residual_sum(b, input, skip, bias)
    weights = [gamma] if beta is None else [gamma, beta]
    statistics = b.wants(1) or b.wants(2)
    norm = b.several(3 if statistics else 1, "LayerNormalization", total, *weights, axis=-1, epsilon=epsilon)
    return [*norm, *[None] * (3 - len(norm)), total]


@body("SkipSimplifiedLayerNormalization")
def SkipSimplifiedLayerNormalization(
    b: BodyBuilder, input: Value, skip: Value, gamma: Value, bias: Value | None, *, epsilon: float = _EPSILON
) -> list[Value | None]:
    total = _residual_sum(b, input, skip, bias)
    return [b.RMSNormalization(total, gamma, axis=-1, epsilon=epsilon), None, None, total]


def _residual_sum(b: BodyBuilder, input: Value, skip: Value, bias: Value | None) -> Value:
    """Return `input + skip + bias`. If one side is the product with a weight, the bias is added to that first: it is
    the bias of a linear layer."""
    if bias is None:
        return b.Add(input, skip)
    if _is_projection(b, 1) and not _is_projection(b, 0):
        input, skip = skip, input
    return b.Add(b.Add(input, bias), skip)


def _is_projection(b: BodyBuilder, index: int) -> bool:
    source = b.node.inputs[index]
    node = None if source is None else source.producer()
    return node is not None and node.op_type == "MatMul" and constant(node.inputs[1]) is not None


@body("EmbedLayerNormalization")
def EmbedLayerNormalization(
    b: BodyBuilder,
    input_ids: Value,
    segment_ids: Value | None,
    word_embedding: Value,
    position_embedding: Value,
    segment_embedding: Value | None,
    gamma: Value,
    beta: Value,
    mask: Value | None,
    position_ids: Value | None,
    *,
    epsilon: float = _EPSILON,
    mask_index_type: int = 0,
) -> list[Value | None]:
    """The sum of the embeddings of words, positions (0, 1, 2, ... if not given) and segments, normalised. The second
    output counts the words of each sequence that the mask leaves."""
    total = b.Gather(word_embedding, input_ids)
    if position_ids is None:
        length = b.Squeeze(b.Shape(input_ids, start=1, end=2))
        position_ids = b.Range(b.constant(_ZERO), length, b.constant(_ONE))
    total = b.Add(total, b.Gather(position_embedding, position_ids))
    if segment_embedding is not None and segment_ids is not None:
        total = b.Add(total, b.Gather(segment_embedding, segment_ids))
    y = b.LayerNormalization(total, gamma, beta, axis=-1, epsilon=epsilon)
    return [y, _mask_index(b, input_ids, mask) if b.wants(1) else None, total]


def _mask_index(b: BodyBuilder, input_ids: Value, mask: Value | None) -> Value:
    """Return how many words of each sequence the mask leaves; 0 without a mask."""
    if mask is None:
        return b.ReduceSum(b.Sub(input_ids, input_ids), b.ints(1), keepdims=0)
    return b.ReduceSum(mask, b.ints(1), keepdims=0)


@body("GroupNorm")
def GroupNorm(
    b: BodyBuilder,
    X: Value,
    gamma: Value,
    beta: Value,
    *,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
    groups: int,
) -> Value:
    """The activation is none (0) or SiLU (1). The body follows the documentation, since ONNX Runtime's CPU build cannot
    run it."""
    return _group_norm(b, X, X, gamma, beta, activation, bool(channels_last), epsilon, groups)


@body("SkipGroupNorm")
def SkipGroupNorm(
    b: BodyBuilder,
    X: Value,
    gamma: Value,
    beta: Value,
    skip: Value,
    bias: Value | None,
    *,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
    groups: int,
) -> list[Value | None]:
    """The norm of the sum of X, skip and bias; the second output is this sum. `skip` may have one number for each
    sample and channel, `bias` has one for each channel. The body follows the documentation, since ONNX Runtime's CPU
    build cannot run it."""
    spatial = b.ints(1, 2) if channels_last else b.ints(2, 3)
    if rank(skip) == 2:
        skip = b.Unsqueeze(skip, spatial)
    elif rank(skip) != 4:
        b.fail("its skip has neither two nor four axes")
    total = b.Add(X, skip)
    if bias is not None:
        total = b.Add(total, bias if channels_last else b.Unsqueeze(bias, b.ints(1, 2)))
    return [_group_norm(b, total, X, gamma, beta, activation, bool(channels_last), epsilon, groups), total]


def _group_norm(
    b: BodyBuilder,
    x: Value,
    like: Value,
    gamma: Value,
    beta: Value,
    activation: int,
    last: bool,
    epsilon: float,
    groups: int,
) -> Value:
    """Return the norm of `x`, which has the element type and rank of the input `like`."""
    if activation not in (0, 1):
        b.fail(f"its activation has the number {activation}")
    weights = [w if w.dtype == like.dtype else b.CastLike(w, like) for w in (gamma, beta)]
    if last and x is not like:
        x = b.Transpose(x, perm=[0, 3, 1, 2])
    elif last:
        x = channels_first(b, x)
    y = b.GroupNormalization(x, *weights, num_groups=groups, epsilon=epsilon)
    if activation:
        y = b.Mul(y, b.Sigmoid(y))
    return channels_last(b, y, 4) if last else y
