"""`nn.MultiheadAttention`, as idioms/multihead_attention.py recognises it."""

from __future__ import annotations

from typing import Any

from ..code.expr import nn
from ..ir.domain import DOMAIN
from .arguments import attribute_number
from .node import Node, Result
from .operand import Constant, Tensor, size_of
from .registry import op


@op("MultiheadAttention", domain=DOMAIN)
def MultiheadAttention(
    n: Node,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weight: Constant,
    bias: Constant | None,
    output_weight: Constant,
    output_bias: Constant | None,
    mask: Tensor | None,
    padding: Tensor | None,
    *,
    num_heads: int,
    batch_first: int,
    transposed: int,
    output_transposed: int,
    is_causal: int = 0,
    dropout: float = 0.0,
    inverted: int = 0,
) -> Result:
    """Attention with its projections: packed for queries, keys and values, and of the result. `mask` is by queries and
    keys, `padding` by batches and keys; booleans say which scores do not count, or if `inverted` which do."""
    size = int(str((output_weight.type.shape or (0,))[0]))
    weights = {
        "in_proj_weight": weight if transposed else n.weight(weight, lambda matrix: matrix.T, (3 * size, size)),
        "in_proj_bias": bias,
        "out_proj.weight": output_weight if output_transposed else n.weight(output_weight, lambda matrix: matrix.T),
        "out_proj.bias": output_bias,
    }
    layer = n.layer(
        "MultiheadAttention",
        weights,
        embed_dim=size,
        num_heads=num_heads,
        dropout=attribute_number(dropout, query),
        bias=bias is not None,
        batch_first=bool(batch_first),
    )
    options: dict[str, Any] = {}
    if padding is not None:
        options["key_padding_mask"] = ~padding if inverted else padding
    if is_causal:
        length = size_of(query, 1 if batch_first else 0)
        options["attn_mask"] = nn.Transformer.generate_square_subsequent_mask(length, device=n.device)
        options["is_causal"] = True
    elif mask is not None:
        options["attn_mask"] = ~mask if inverted else mask
    return layer(query, key, value, **options, need_weights=False)[0]
