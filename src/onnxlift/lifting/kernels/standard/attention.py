"""Attention with all that ONNX allows around it, and rotary position embeddings."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    past: int = 0,
    is_causal: bool = False,
    left: int = -1,
    right: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_dtype: torch.dtype | None = None,
    stage: int = 0,
) -> tuple[Tensor, Tensor]:
    """Attention of (batch, heads, length, features), and its scores as they come out of the product (stage 0), of the
    soft cap (1), of the mask (2), or of the softmax (3). A query that may see no key gives zeros."""
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    root = math.sqrt(1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    scores = (q * root) @ (k * root).mT
    stages = [scores]
    if softcap > 0:
        scores = softcap * torch.tanh(scores / softcap)
    stages.append(scores)
    bias = attention_bias(scores, mask, lengths, past, is_causal, left, right)
    scores = scores + bias
    stages.append(scores)
    weights = scores.softmax(-1, dtype=softmax_dtype)
    weights = weights.masked_fill(bias.isneginf().all(-1, keepdim=True), 0).to(q.dtype)
    stages.append(weights)
    return (weights.to(v.dtype) @ v).to(q.dtype), stages[stage]


def attention_bias(
    scores: Tensor, mask: Tensor | None, lengths: Tensor | None, past: int, is_causal: bool, left: int, right: int
) -> Tensor:
    """Return what is added to the scores: minus infinity where a query may not see a key. Query `i` stands at
    `past + i`, or at the end of the first `lengths` keys, and sees `left` keys before and `right` behind (all of them
    if negative)."""
    queries, keys = scores.shape[-2:]
    key = torch.arange(keys, device=scores.device)
    query = torch.arange(queries, device=scores.device)[:, None] + past
    visible = torch.ones(queries, keys, dtype=torch.bool, device=scores.device)
    if lengths is not None:
        lengths = lengths.view(-1, 1, 1, 1)
        query = query + lengths - queries
        visible = visible & (key < lengths)
    if is_causal:
        visible = visible & (key <= query)
    if left >= 0:
        visible = visible & (query - key <= left)
    if right >= 0:
        visible = visible & (key - query <= right)
    bias = scores.new_zeros(())
    if mask is not None:
        is_bool = mask.dtype == torch.bool
        mask = F.pad(mask, (0, keys - mask.shape[-1]), value=False if is_bool else -math.inf)
        if is_bool:
            visible = visible & mask
        else:
            bias = mask.to(scores.dtype)
    return torch.where(visible, bias, -math.inf)


def rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """Rotates pairs of features by the angles whose cosines and sines are given: the first with the second half of
    those that there are angles for, or neighbours if `interleaved`."""
    width = 2 * cos.shape[-1]
    turned, rest = x[..., :width], x[..., width:]
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    pair = (a * cos - b * sin, a * sin + b * cos)
    turned = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    return torch.cat((turned, rest), -1)


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Features turned by the angles of their positions, the first half with the second."""
    return x * cos + rotate_half(x) * sin


def rotate_half(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def apply_rotary_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Features turned by the angles of their positions, each even one with the odd one after it."""
    return x * cos + rotate_every_two(x) * sin


def rotate_every_two(x: Tensor) -> Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
