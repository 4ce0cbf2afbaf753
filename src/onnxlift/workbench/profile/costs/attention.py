"""Attention: every query with every key, the softmax, and the values weighted by it.

A causal mask saves nothing here: the product is counted as if it were computed whole, as all counters do.
"""

from __future__ import annotations

from ..formula import Size
from ..node import CostNode, NotKnownError, Shape
from ..registry import Work, cost


@cost("Attention")
def attention(n: CostNode) -> Work:
    """Query, key and value are (batch, heads, sequence, width), or (batch, sequence, heads * width)."""
    query, key, value = (n.shape(index) for index in range(3))
    if len(query) == 4:
        batch, heads, length, width = query
        new, value_width = key[2], value[3]
    else:
        heads, value_heads = n.attribute("q_num_heads"), n.attribute("kv_num_heads")
        if not heads or not value_heads:
            raise NotKnownError("it does not tell the number of heads")
        batch, length = query[:2]
        new = key[1]
        width, value_width = _part(query[2], heads), _part(value[2], value_heads)
    past = n.shape(4)[2] if n.has(4) else 0
    scores = batch * heads * length * (new + past)
    return Work(macs=scores * (width + value_width), other=scores * _each_score(n.has(3)))


@cost("GroupQueryAttention", domain="com.microsoft")
def group_query_attention(n: CostNode) -> Work:
    """The past and the new keys lie in one tensor, the second output. The first input may hold keys and values too."""
    heads, pairs = n.attribute("num_heads"), n.attribute("kv_num_heads")
    query = n.shape(0)
    if not heads or not pairs:
        raise NotKnownError("it does not tell the number of heads")
    width = _part(query[2], heads if n.has(1) else heads + 2 * pairs)
    total = _keys(n)
    scores = query[0] * heads * query[1] * total
    turned = query[0] * query[1] * (heads + pairs) * width * 3 if n.attribute("do_rotary") else 0
    return Work(macs=scores * width * 2, other=scores * _each_score(n.has(10)) + turned)


def _keys(n: CostNode) -> Size:
    """Return how many keys there are: the length of the buffer of keys that it writes."""
    if len(n.node.outputs) > 1 and n.node.outputs[1].name:
        return n.output_shape(1)[2]
    past = n.shape(3)[2] if n.has(3) else 0
    return n.shape(0)[1] + past


def _each_score(has_mask: bool) -> int:
    """Return the operations for a score beside both products: the scale, the softmax, and the mask."""
    return 6 + has_mask


def _part(size: Size, count: int) -> Size:
    if isinstance(size, int):
        return size // count
    raise NotKnownError("the width of its heads is not known")


def _tokens(shape: Shape) -> Size:
    tokens: Size = 1
    for size in shape[:-1]:
        tokens = tokens * size
    return tokens


@cost("MoE", domain="com.microsoft")
def mixture_of_experts(n: CostNode) -> Work:
    """Each token goes through `k` experts: (experts, hidden, inter), then (experts, inter, hidden), maybe a third."""
    return _experts(n, (2, 4, 6), 1)


@cost("QMoE", domain="com.microsoft", weights=(2, 5, 8))
def quantised_mixture_of_experts(n: CostNode) -> Work:
    """The same with packed weights; each is made a float before it is used."""
    packed = 8 // int(n.attribute("expert_weight_bits", 4))
    work = _experts(n, (2, 5, 8), packed)
    parameters = sum((n.size(index) for index in (2, 5, 8)), start=0) * packed
    return Work(macs=work.macs, other=work.other, parameters=parameters)


def _experts(n: CostNode, weights: tuple[int, ...], packed: int) -> Work:
    tokens, chosen = _tokens(n.shape(0)), int(n.attribute("k", 1))
    macs: Size = 0
    for index in weights:
        if n.has(index):
            shape = n.shape(index)
            macs = macs + tokens * chosen * shape[1] * shape[2] * packed
    return Work(macs=macs, other=tokens * chosen * n.shape(0)[-1])


@cost("RelativePositionBias", domain="com.microsoft")
def relative_positions(n: CostNode) -> Work:
    """A bias for each pair of positions, picked from a table."""
    return Work(other=n.output_size())


@cost("GatedRelativePositionBias", domain="com.microsoft")
def gated_relative_positions(n: CostNode) -> Work:
    """A small product for the gates of each head, then a scale of each bias."""
    heads = n.attribute("num_heads")
    if not heads:
        raise NotKnownError("it does not tell the number of heads")
    tokens = _tokens(n.shape(0))
    weight = n.shape(3)
    return Work(macs=tokens * heads * weight[0] * weight[1], other=n.output_size() + tokens * heads * 12)
