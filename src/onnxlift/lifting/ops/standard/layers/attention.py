"""Attention and rotary position embeddings.

`F.scaled_dot_product_attention` is used where it means exactly the same. Caches of padded keys, sliding windows, soft
caps, and scores as a result go to a kernel.
"""

from __future__ import annotations

from typing import Any

from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Expr, F, Local, Ref, torch
from onnxlift.lifting.code.statements import Assign
from onnxlift.lifting.ops.arguments import attribute_number, changed, trimmed
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result, data_type, exact_dtype
from onnxlift.lifting.ops.operand import Tensor, size_of
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.math.cast import converted

PRECISION = {DataType.BFLOAT16: 0, DataType.FLOAT16: 0, DataType.FLOAT: 1, DataType.DOUBLE: 2}


@op("Attention")
def Attention(
    n: Node,
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    attn_mask: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    nonpad_kv_seqlen: Tensor | None,
    *,
    is_causal: int,
    kv_num_heads: int | None,
    left_window_size: int = -1,
    q_num_heads: int | None,
    qk_matmul_output_mode: int,
    right_window_size: int = -1,
    scale: float | None,
    softcap: float,
    softmax_precision: int | None,
) -> Result:
    """The inputs are (batch, heads, length, features), or (batch, length, heads * features) if the numbers of heads are
    given."""
    flat = Q.type.rank == 3 or (Q.type.rank is None and bool(q_num_heads))
    if flat and not (q_num_heads and kv_num_heads):
        n.fail("its inputs have three axes, and the numbers of heads are not given")
    q = _split_heads(Q, q_num_heads) if flat else Q
    k = _with_past(n, 1, _split_heads(K, kv_num_heads) if flat else K, past_key)
    v = _with_past(n, 2, _split_heads(V, kv_num_heads) if flat else V, past_value)
    usual = {"is_causal": bool(is_causal), "scale": None if scale is None else attribute_number(scale, Q)}
    options = changed(usual, is_causal=False, scale=None)
    is_masked = is_causal or left_window_size >= 0 or right_window_size >= 0
    more = changed(
        {
            "past": size_of(past_key, 2) if is_masked and past_key is not None else 0,
            "left": left_window_size,
            "right": right_window_size,
            "softcap": attribute_number(softcap, Q),
            "stage": qk_matmul_output_mode if n.wants(3) else 0,
        },
        past=0,
        left=-1,
        right=-1,
        softcap=0.0,
        stage=0,
    )
    heads = (q_num_heads or Q.type.dim(1), kv_num_heads or K.type.dim(1))
    plain = not more and nonpad_kv_seqlen is None and not n.wants(3) and all(isinstance(h, int) for h in heads)
    if plain and _is_torch_mask(Q, K, V, attn_mask, past_key, bool(is_causal)) and _is_enough(Q, softmax_precision):
        mask = {} if attn_mask is None else {"attn_mask": attn_mask}
        grouped = {"enable_gqa": True} if heads[0] != heads[1] else {}
        y = attend(q, k, v, Q.type.dtype, {**mask, **options, **grouped})
        return [_merge_heads(y) if flat else y, k, v]
    if softmax_precision:
        options["softmax_dtype"] = exact_dtype(data_type(softmax_precision))
    both: Expr = kernel("attention")(*trimmed(q, k, v, attn_mask, nonpad_kv_seqlen), **more, **options)
    if not n.wants(3):
        return [_merge_heads(both[0]) if flat else both[0], k, v]
    scores = Ref(n.ir.outputs[3])
    attended = Local("attended") if flat else Ref(n.ir.outputs[0])
    n.emit(Assign([attended, scores], both))
    y = _merge_heads(attended) if flat else Tensor(attended, n.output)
    return [y, k, v, Tensor(scores, n.outputs[3])]


def attend(q: Expr, k: Expr, v: Expr, dtype: DataType | None, options: dict[str, Any]) -> Expr:
    """Return PyTorch's attention. Float16 is computed in float32, because PyTorch rounds intermediate results and so
    differs by more than ONNX tolerates (and is slower on a CPU)."""
    if dtype != DataType.FLOAT16:
        return F.scaled_dot_product_attention(q, k, v, **options)
    if "attn_mask" in options and options["attn_mask"].type.dtype == dtype:
        options["attn_mask"] = options["attn_mask"].float()
    return converted(F.scaled_dot_product_attention(q.float(), k.float(), v.float(), **options), dtype)


def _split_heads(x: Tensor, heads: int | None) -> Expr:
    return x.unflatten(2, (heads, -1)).transpose(1, 2)


def _merge_heads(x: Expr) -> Expr:
    return x.transpose(1, 2).flatten(2)


def _with_past(n: Node, output: int, x: Expr, past: Tensor | None) -> Expr:
    """Return the keys or values behind those of the cache. They are also output number `output`."""
    present: Expr = x if past is None else torch.cat((past, x), 2)
    if not n.wants(output) or isinstance(present, Tensor):
        return present
    n.emit(Assign([Ref(n.ir.outputs[output])], present))
    return Tensor(Ref(n.ir.outputs[output]), n.outputs[output])


def _is_torch_mask(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None, past: Tensor | None, is_causal: bool) -> bool:
    """Tell whether `F.scaled_dot_product_attention` takes the mask as it is. It must not come with `is_causal`, which
    PyTorch counts from the first key. It must have the type of the query or bool, at least two axes, and as many
    entries as there are keys."""
    if Q.type.dtype != V.type.dtype:
        return False
    if mask is None:
        return not (is_causal and past is not None)
    if is_causal or mask.type.dtype not in (DataType.BOOL, Q.type.dtype) or (mask.type.rank or 0) < 2:
        return False
    return _total_length(K, past) == mask.type.dim(-1) is not None


def _total_length(K: Tensor, past: Tensor | None) -> int | str | None:
    length = K.type.dim(1 if K.type.rank == 3 else 2)
    if past is None:
        return length
    before = past.type.dim(2)
    return before + length if isinstance(before, int) and isinstance(length, int) else None


def _is_enough(Q: Tensor, softmax_precision: int | None) -> bool:
    """Tell whether PyTorch's softmax is precise enough: it is computed in float32, or in float64 for float64 inputs."""
    if not softmax_precision or Q.type.dtype is None:
        return True
    return PRECISION.get(data_type(softmax_precision), 3) <= max(PRECISION.get(Q.type.dtype, 0), 1)


@op("RotaryEmbedding")
def RotaryEmbedding(
    n: Node,
    X: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    position_ids: Tensor | None,
    *,
    interleaved: int,
    num_heads: int | None,
    rotary_embedding_dim: int,
) -> Result:
    """The caches decide how many features are rotated: as many as they have angles for. `rotary_embedding_dim` says the
    same."""
    flat = X.type.rank == 3 or (X.type.rank is None and bool(num_heads))
    if flat and not num_heads:
        n.fail("its input has three axes, and the number of heads is not given")
    caches = [cos_cache, sin_cache] if position_ids is None else [cos_cache[position_ids], sin_cache[position_ids]]
    options = changed({"interleaved": bool(interleaved)}, interleaved=False)
    x = _split_heads(X, num_heads) if flat else X
    rotated = kernel("rotate_pairs")(x, *(cache.unsqueeze(1) for cache in caches), **options)
    return _merge_heads(rotated) if flat else rotated
