"""`nn.MultiheadAttention`, as idioms/attention/multihead_attention.py recognises it."""

from __future__ import annotations

from typing import Any

from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Local, nn
from onnxlift.lifting.code.statements import Assign
from onnxlift.lifting.ops import weight_shapes
from onnxlift.lifting.ops.arguments import attribute_number
from onnxlift.lifting.ops.kinds import LayerKind, signature
from onnxlift.lifting.ops.layers import Weight, turned
from onnxlift.lifting.ops.node import Node, Result, Unpack, torch_dtype
from onnxlift.lifting.ops.operand import Constant, Tensor, size_of
from onnxlift.lifting.ops.registry import op


@op(
    "MultiheadAttention",
    domain=DOMAIN,
    layer=LayerKind(
        "MultiheadAttention",
        signature(
            "embed_dim",
            "num_heads",
            dropout=0.0,
            bias=True,
            add_bias_kv=False,
            add_zero_attn=False,
            kdim=None,
            vdim=None,
            batch_first=False,
        ),
        word="attn",
        shapes=weight_shapes.multihead_attention,
    ),
    weights=("weight", "bias"),  # the weights of the output projection are in a layer of their own below it
)
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
    key_weight: Constant | None,
    value_weight: Constant | None,
    bias_k: Constant | None,
    bias_v: Constant | None,
    *,
    num_heads: int,
    batch_first: int,
    transposed: int,
    output_transposed: int,
    add_zero_attn: int = 0,
    need_weights: int = 0,
    average_attn_weights: int = 1,
    causal_mask: int = 0,
    is_causal: int = 0,
    dropout: float = 0.0,
    inverted: int = 0,
) -> Result:
    """Attention with its projections: of queries, keys and values, with one packed weight or one each, and of the
    result.

    `mask` is by queries and keys; with `causal_mask` it hides the keys behind each query instead. `padding` is by
    batches and keys. True in them means that a score does not count, or if `inverted` that it does. The second output
    is the attention's weights.
    """
    size = int(str((output_weight.type.shape or (0,))[0]))

    def held(matrix: Constant, is_transposed: int) -> Constant | Weight:
        return matrix if is_transposed else n.weight(matrix, turned, matrix.const.shape[::-1])

    if key_weight is None or value_weight is None:
        projections, widths = {"in_proj_weight": held(weight, transposed)}, {}
    else:
        parts = {"q": weight, "k": key_weight, "v": value_weight}
        projections = {f"{name}_proj_weight": held(part, transposed) for name, part in parts.items()}
        widths = {f"{name}dim": int(parts[name].const.shape[1 if transposed else 0]) for name in ("k", "v")}
    weights = {
        **projections,
        "in_proj_bias": bias,
        "out_proj.weight": held(output_weight, output_transposed),
        "out_proj.bias": output_bias,
        "bias_k": bias_k,
        "bias_v": bias_v,
    }
    layer = n.layer(
        "MultiheadAttention",
        weights,
        embed_dim=size,
        num_heads=num_heads,
        dropout=attribute_number(dropout, query),
        bias=bias is not None,
        add_bias_kv=bias_k is not None,
        add_zero_attn=bool(add_zero_attn),
        **{name: width for name, width in widths.items() if width != size},
        batch_first=bool(batch_first),
    )
    options: dict[str, Any] = {}
    if padding is not None:
        options["key_padding_mask"] = ~padding if inverted else padding
    if causal_mask:
        length = size_of(query, 1 if batch_first else 0)
        later = Local("mask")
        dtype = query.type.dtype
        usual = {} if dtype is None or dtype == DataType.FLOAT else {"dtype": torch_dtype(dtype)}
        n.emit(Assign([later], nn.Transformer.generate_square_subsequent_mask(length, device=n.device, **usual)))
        options["attn_mask"] = later
        if is_causal:
            options["is_causal"] = True
    elif mask is not None:
        options["attn_mask"] = ~mask if inverted else mask
    if not need_weights and options:  # the line would be too long with `[0]` and more behind it
        return Unpack(layer(query, key, value, **options, need_weights=False), 2)
    if not need_weights:
        return layer(query, key, value, need_weights=False)[0]
    if not average_attn_weights:
        options["average_attn_weights"] = False
    return Unpack(layer(query, key, value, **options), 2, names=(None, "weights"))
