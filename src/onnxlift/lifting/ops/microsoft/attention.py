"""Attention operators of ONNX Runtime that ONNX's own cannot express. The others are in
bodies/microsoft_attention.py."""

from __future__ import annotations

from typing import Any

from onnxlift.lifting.code.expr import Expr, F, Local, Ref
from onnxlift.lifting.code.statements import Assign
from onnxlift.lifting.ops.arguments import attribute_number, changed, trimmed
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Scalar, Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.rewriting.bodies.body import MICROSOFT


@op("GroupQueryAttention", domain=MICROSOFT, ignores=["kv_cache_bit_width"])
def GroupQueryAttention(
    n: Node,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    seqlens_k: Tensor,
    total_sequence_length: Scalar,
    cos_cache: Tensor | None,
    sin_cache: Tensor | None,
    position_ids: Tensor | None,
    attention_bias: Tensor | None,
    head_sink: Tensor | None,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    q_norm_weight: Tensor | None,
    k_norm_weight: Tensor | None,
    *,
    causal: int = 1,
    do_rotary: int = 0,
    k_quant_type: str = "NONE",
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
) -> Result:
    """Queries, keys and values are (batch, length, heads * features). Without keys, all three are side by side in the
    queries. Each key is put behind the past keys of its own sequence, whose length `seqlens_k` tells."""
    if k_quant_type != "NONE" or v_quant_type != "NONE" or sliding_window_cache or n.wants(3):
        n.fail("a quantised or sliding cache, or the scores as a result")
    q, k, v = _heads(query, key, value, num_heads, kv_num_heads)
    if q_norm_weight is not None and k_norm_weight is not None:
        eps = attribute_number(qk_norm_epsilon, query)
        q, k = (F.rms_norm(x, x.shape[-1:], weight, eps=eps) for x, weight in ((q, q_norm_weight), (k, k_norm_weight)))
    sink: Any = head_sink
    if sink is None and smooth_softmax > 0:
        sink = query.new_zeros(num_heads)
    turned = [cos_cache, sin_cache, position_ids] if do_rotary else [None] * 3
    past = [past_key, past_value, seqlens_k, total_sequence_length]
    inputs = trimmed(q, k, v, *past, *turned, attention_bias, sink)
    options = {
        "interleaved": bool(rotary_interleaved),
        "is_causal": bool(causal),
        "window": local_window_size,
        "scale": attribute_number(scale, query) if scale else None,
        "softcap": attribute_number(softcap, query),
    }
    defaults = {"interleaved": False, "is_causal": True, "window": -1, "scale": None, "softcap": 0.0}
    attended = Local("attended")
    present = [Ref(value) if n.wants(i) else None for i, value in enumerate(n.ir.outputs[:3])][1:]
    targets = [attended, *present, *[None] * (2 - len(present))]
    n.emit(Assign(targets, kernel("group_query_attention")(*inputs, **changed(options, **defaults))))
    caches = [None if ref is None else Tensor(ref, n.outputs[i]) for i, ref in enumerate(present, start=1)]
    return [attended.transpose(1, 2).flatten(2), *caches]


def _heads(query: Tensor, key: Tensor | None, value: Tensor | None, heads: int, kv_heads: int) -> list[Expr]:
    """Return queries, keys and values as (batch, heads, length, features)."""
    if key is None or value is None:
        packed = query.unflatten(2, (heads + 2 * kv_heads, -1)).transpose(1, 2)
        return [packed[:, :heads], packed[:, heads : heads + kv_heads], packed[:, heads + kv_heads :]]
    counted = ((query, heads), (key, kv_heads), (value, kv_heads))
    return [x.unflatten(2, (count, -1)).transpose(1, 2) for x, count in counted]


@op("RelativePositionBias", domain=MICROSOFT)
def RelativePositionBias(
    n: Node,
    bias_table: Tensor,
    query_length: Scalar,
    key_length: Scalar,
    *,
    is_bidirectional: int = 0,
    max_distance: int,
) -> Result:
    """Follow the documentation, with the buckets of T5, since ONNX Runtime's CPU build cannot run it."""
    options = changed({"bidirectional": bool(is_bidirectional)}, bidirectional=False)
    return kernel("relative_position_bias")(bias_table, query_length, key_length, max_distance, **options)


@op("GatedRelativePositionBias", domain=MICROSOFT)
def GatedRelativePositionBias(
    n: Node,
    query_layer: Tensor,
    query_bias: Tensor,
    rel_pos: Tensor,
    weight: Tensor,
    bias: Tensor,
    eco_a: Tensor,
    token_offset: Tensor | None,
    *,
    num_heads: int,
) -> Result:
    """Follow the documentation, since ONNX Runtime's CPU build cannot run it."""
    if token_offset is not None or query_layer.type.rank != 3:
        n.fail("queries without their padding")
    inputs = (query_layer, query_bias, rel_pos, weight, bias, eco_a)
    return kernel("gated_relative_position_bias")(*inputs, num_heads)
