"""Attention of ONNX Runtime where the lengths of the sequences decide what is seen."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from onnxlift.lifting.kernels.standard.attention import rotate_pairs


def group_query_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor | None,
    past_value: Tensor | None,
    last: Tensor,
    total: int,
    cos: Tensor | None = None,
    sin: Tensor | None = None,
    positions: Tensor | None = None,
    bias: Tensor | None = None,
    sink: Tensor | None = None,
    *,
    interleaved: bool = False,
    is_causal: bool = True,
    window: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of (batch, heads, length, features), and the keys and values with the new ones put behind the past.

    `last` is the place of each sequence's last token and `total` the largest number of keys, which the caches have room
    for. A head of k and v serves several of q. `sink` counts as a key of its own, without a value."""
    length = q.shape[2]
    before = torch.zeros_like(last) if total == length else last + 1 - length
    places = before.long()[:, None] + torch.arange(length, device=q.device)
    if cos is not None and sin is not None:
        turn = places if positions is None else positions
        q, k = (rotate_pairs(x, cos[turn][:, None], sin[turn][:, None], interleaved) for x in (q, k))
    keys, values = put_behind(past_key, k, places, total), put_behind(past_value, v, places, total)
    key = torch.arange(keys.shape[2], device=q.device)
    visible = key <= (places if is_causal else last.long()[:, None].expand_as(places))[..., None]
    if window >= 0:
        visible = visible & (key > places[..., None] - window)
    visible = visible[:, None]
    mask = visible if bias is None else torch.where(visible, pad_keys(bias, keys.shape[2]), -math.inf)
    if not softcap and sink is None:
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=scale, enable_gqa=True)
        return y, keys, values
    groups = q.shape[1] // k.shape[1]
    scores = q @ keys.repeat_interleave(groups, 1).mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if softcap:
        scores = softcap * (scores / softcap).tanh()
    scores = scores.masked_fill(~visible, -math.inf) if bias is None else scores + mask
    if sink is not None:
        scores = torch.cat([scores, sink.view(-1, 1, 1).expand(*scores.shape[:-1], 1)], -1)
    weights = scores.softmax(-1)[..., : keys.shape[2]]
    return weights @ values.repeat_interleave(groups, 1), keys, values


def put_behind(past: Tensor | None, new: Tensor, places: Tensor, total: int) -> Tensor:
    """`past` with the new keys or values at their places, and with room for `total` of them."""
    batch, heads, _, features = new.shape
    if past is None:
        past = new.new_zeros(batch, heads, 0, features)
    room = F.pad(past, (0, 0, 0, max(total - past.shape[2], 0)))
    return room.scatter(2, places[:, None, :, None].expand_as(new), new)


def pad_keys(bias: Tensor, keys: int) -> Tensor:
    """`bias` of the scores for as many keys as the caches have room for."""
    return F.pad(bias, (0, keys - bias.shape[-1]))


def relative_position_bias(
    table: Tensor, queries: int, keys: int, max_distance: int, bidirectional: bool = False
) -> Tensor:
    """T5's bias of the scores, (1, heads, queries, keys): one number for each head and bucket of distances. The table
    says (buckets, heads), but holds the numbers of each head together."""
    buckets, heads = table.shape
    distance = torch.arange(keys, device=table.device) - torch.arange(queries, device=table.device)[:, None]
    number = torch.zeros_like(distance)
    count = buckets
    if bidirectional:
        count = buckets // 2
        number = torch.where(distance > 0, count, 0)
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    exact = count // 2
    far = (distance.clamp(min=1).float() / exact).log() / math.log(max_distance / exact) * (count - exact)
    number = number + torch.where(distance < exact, distance, (exact + far.long()).clamp(max=count - 1))
    return table.reshape(heads, buckets)[:, number][None]


def gated_relative_position_bias(
    query: Tensor, query_bias: Tensor, rel_pos: Tensor, weight: Tensor, bias: Tensor, eco_a: Tensor, heads: int
) -> Tensor:
    """A bias of the scores, (1, heads, length, length), gated by the queries, (batch, length, heads * features)."""
    query = (query + query_bias).unflatten(2, (heads, -1)).transpose(1, 2)
    gates = (query @ weight + bias).unflatten(-1, (2, -1)).sum(-1).sigmoid()
    update, reset = gates.chunk(2, -1)
    return (update * (reset * eco_a - 1) + 2) * rel_pos
