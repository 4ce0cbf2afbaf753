"""Infer types and shapes of the outputs of ONNX Runtime's own operators, for which ONNX has no schema.

A rule gets a `NodeView` and returns element type and shape of the outputs, in order: None for one that it does not
know, and it may leave out the last ones. It raises `Unknown` if it can say nothing. Operators that are replaced by
bodies (see rewriting/bodies/) need a rule only so that the values after them are known before that happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.shapes import Shape
from onnxlift.ir.graph.types import DataType

from . import shape_rules, symbolic, window_rules
from .node_view import NodeView, Unknown

DOMAIN = "com.microsoft"
Output = tuple[ir.DataType, Shape] | None
Rule = Callable[[NodeView], Sequence[Output]]


def infer(n: NodeView) -> list[Output]:
    """Return what is known of the outputs, in order; an empty list if there is no rule, or it can say nothing."""
    if n.node.domain == DOMAIN:
        rule = RULES.get(n.node.op_type)
    else:
        rule = _same if n.node.op_type == "SimplifiedLayerNormalization" else None
    if rule is None:
        return []
    try:
        return list(rule(n))
    except Unknown:
        return []


def _same(n: NodeView) -> list[Output]:
    return [(n.dtype(), n.shape())]


def _broadcast(*indices: int) -> Rule:
    """Return a rule: the output has the broadcast shape of these inputs, and the element type of the first of them."""
    return lambda n: [
        (n.dtype(indices[0]), shape_rules.broadcast_shapes((n.shape(i) for i in indices if n.has(i)), n.fresh))
    ]


def _skip_norm(n: NodeView) -> list[Output]:
    whole = (n.dtype(), n.shape())
    return [whole, None, None, whole]


def _embed_norm(n: NodeView) -> list[Output]:
    whole = (n.dtype(2), (*n.shape(0), n.shape(2)[-1]))
    return [whole, (DataType.INT32, n.shape(0)[:1]), whole]


def _skip_group_norm(n: NodeView) -> list[Output]:
    return [(n.dtype(), n.shape()), (n.dtype(), n.shape())]


def _half_last(n: NodeView) -> list[Output]:
    *rest, last = n.shape()
    return [(n.dtype(), (*rest, n.known(symbolic.floor_divide(last, 2))))]


def _moved(shape: Shape, batch: int, matrix: int) -> Shape:
    if batch and len(shape) > 1:
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if matrix and len(shape) > 1 else shape


def _fused_matmul(n: NodeView) -> list[Output]:
    a, b = (
        _moved(n.shape(i), n.attribute(f"transBatch{name}", 0), n.attribute(f"trans{name}", 0))
        for i, name in enumerate("AB")
    )
    return [(n.dtype(), _product(n, a, b))]


def _product(n: NodeView, a: Shape, b: Shape) -> Shape:
    if len(a) < 2 or len(b) < 2:
        raise Unknown
    return (*shape_rules.broadcast_shapes((a[:-2], b[:-2]), n.fresh), a[-2], b[-1])


def _matmul(dtype: int) -> Rule:
    return lambda n: [(n.dtype(dtype), _product(n, n.shape(0), n.shape(1)))]


def _gemm(n: NodeView) -> list[Output]:
    a, b = _moved(n.shape(0), 0, n.attribute("transA", 0)), _moved(n.shape(1), 0, n.attribute("transB", 0))
    return [(n.dtype(), _product(n, a, b))]


def _qgemm(n: NodeView) -> list[Output]:
    a, b = _moved(n.shape(0), 0, n.attribute("transA", 0)), _moved(n.shape(3), 0, n.attribute("transB", 0))
    return [(n.dtype(8) if n.has(7) else n.dtype(1), _product(n, a, b))]


def _linear(features: str) -> Rule:
    """Return a rule: the output has the shape of the input, with the attribute `features` as the last size."""
    return lambda n: [(n.dtype(), (*n.shape()[:-1], n.attribute(features)))]


def _bnb4(n: NodeView) -> list[Output]:
    return [(n.dtype(), (*n.shape()[:-1], n.attribute("N" if n.attribute("transB", 1) else "K")))]


def _global_pool(n: NodeView) -> list[Output]:
    shape = n.shape()
    ones = (1,) * (len(shape) - 2)
    last = n.attribute("channels_last", 0)
    return [(n.dtype(), (shape[0], *ones, shape[-1]) if last else (*shape[:2], *ones))]


class _ChannelsFirst(NodeView):
    """A view of a node with channels last, which shows the shape of its first input with the channels behind the batch.

    It does the same with the weight of NhwcConv, which is laid out like the input."""

    def shape(self, index: int = 0) -> Shape:
        shape = super().shape(index)
        moved = index == 0 or (index == 1 and self.node.op_type == "NhwcConv")
        return (shape[0], shape[-1], *shape[1:-1]) if moved else shape


def _channels_last(rule: Callable[[NodeView], Shape]) -> Rule:
    def of_channels_last(n: NodeView) -> list[Output]:
        batch, channels, *sizes = rule(_ChannelsFirst(n.node, n.opset, {}, n.fresh, n.bounds))
        return [(n.dtype(), (batch, *sizes, channels))]

    return of_channels_last


def _pool(n: NodeView) -> Sequence[Output]:
    if n.attribute("channels_last", 0):
        return _channels_last(window_rules.pool)(n)
    return [(n.dtype(), window_rules.pool(n))]


def _reduced(n: NodeView, dtype: ir.DataType) -> list[Output]:
    shape, kept = n.shape(), n.attribute("keepdims")
    axes = {axis % len(shape) for axis in n.attribute("axes")}
    return [(dtype, tuple(1 if i in axes else d for i, d in enumerate(shape) if kept or i not in axes))]


def _concat(n: NodeView) -> list[Output]:
    shapes = [n.shape(i) for i in range(2, len(n.inputs), 3)]
    axis = n.axis("axis", len(shapes[0]))
    total: Any = 0
    for shape in shapes:
        total = None if total is None else symbolic.add(total, shape[axis])
    return [(n.dtype(1), (*shapes[0][:axis], n.known(total), *shapes[0][axis + 1 :]))]


def _gather_block(n: NodeView) -> list[Output]:
    data, indices = list(n.shape(0)), n.shape(1)
    if n.dtype(0) == DataType.UINT8:
        data[-1] = n.known(symbolic.multiply(data[-1], 8 // n.attribute("bits", 4)))
    axis = n.axis("gather_axis", len(data), 0)
    return [(n.dtype(2), (*data[:axis], *indices, *data[axis + 1 :]))]


def _attention(n: NodeView) -> list[Output]:
    """Infer Attention and QAttention. The last of the hidden sizes is that of the values, and of the output."""
    sizes = n.attribute("qkv_hidden_sizes", None)
    width = sizes[2] if sizes else symbolic.divide_exactly(n.shape(1)[1], 3)
    dtype = n.dtype(3) if n.node.op_type == "QAttention" else n.dtype()
    return [(dtype, (*n.shape()[:2], n.known(width)))]


def _multi_head(n: NodeView) -> list[Output]:
    query = n.shape(0)
    if len(query) == 5:
        return [(n.dtype(), (*query[:2], n.known(symbolic.multiply(query[2], query[4]))))]
    if not n.has(2) or len(n.shape(2)) != 3:
        return [(n.dtype(), query)]
    return [(n.dtype(), (*query[:2], n.shape(2)[2]))]


def _group_query(n: NodeView) -> list[Output]:
    batch, length, width = n.shape(0)
    heads, kv_heads = n.attribute("num_heads"), n.attribute("kv_num_heads")
    packed = not n.has(1)
    head = symbolic.divide_exactly(width, heads + 2 * kv_heads if packed else heads)
    if head is None:
        raise Unknown
    cache = (batch, kv_heads, n.fresh(), head)
    dtype = n.dtype(3) if n.has(3) else n.dtype()
    return [(n.dtype(), (batch, length, n.known(symbolic.multiply(head, heads)))), (dtype, cache), (dtype, cache)]


def _lstm(n: NodeView) -> list[Output]:
    length, batch, _ = n.shape(0)
    directions, hidden, _ = n.shape(2)
    last = (directions, batch, hidden)
    return [(n.dtype(), (length, directions, batch, hidden)), (n.dtype(), last), (n.dtype(), last)]


def _unique(n: NodeView) -> list[Output]:
    found = n.fresh()
    return [(n.dtype(), (found,)), (DataType.INT64, n.shape()), (DataType.INT64, (found,))]


def _rfft(n: NodeView) -> list[Output]:
    half = symbolic.floor_divide(n.shape()[-1], 2)
    return [(n.dtype(), (*n.shape()[:-1], n.known(None if half is None else symbolic.add(half, 1)), 2))]


def _irfft(n: NodeView) -> list[Output]:
    *rest, half, _ = n.shape()
    less = symbolic.add(half, -1)
    return [(n.dtype(), (*rest, n.known(None if less is None else symbolic.multiply(less, 2))))]


def _crop_and_resize(n: NodeView) -> list[Output]:
    height, width = (n.known(size) for size in n.elements(3))
    return [(n.dtype(), (n.shape(1)[0], n.shape(0)[1], height, width))]


def _cdist(n: NodeView) -> list[Output]:
    return [(n.dtype(), (n.shape(0)[0], n.shape(1)[0]))]


def _relative_bias(n: NodeView) -> list[Output]:
    (query,), (key,) = n.elements(1), n.elements(2)
    return [(n.dtype(), (1, n.shape()[1], n.known(query), n.known(key)))]


def _gated_bias(n: NodeView) -> list[Output]:
    _, heads, *lengths = n.shape(2)
    return [(n.dtype(), (n.shape()[0] if len(n.shape()) == 3 else n.fresh(), heads, *lengths))]


def _unfold(n: NodeView) -> list[Output]:
    shape = list(n.shape())
    axis, size, step = n.axis("dim", len(shape), -1), n.attribute("size"), n.attribute("step", 1)
    span = symbolic.add(shape[axis], step - size)
    shape[axis] = n.known(None if span is None else symbolic.floor_divide(span, step))
    return [(n.dtype(), (*shape, size))]


_SAME = (
    "Gelu FastGelu QuickGelu BiasAdd GroupNorm RotaryEmbedding QLinearSigmoid QLinearLeakyRelu QLinearSoftmax "
    "Inverse Trilu MoE QMoE SampleOp BiasSoftmax BiasDropout PackedMultiHeadAttention"
).split()


def _tokenizer(n: NodeView) -> list[Output]:
    """Each text becomes a row of tokens."""
    return [(DataType.STRING, (*n.shape(), n.fresh()))]


RULES: dict[str, Rule] = {
    **dict.fromkeys(_SAME, _same),
    "BiasGelu": _broadcast(0, 1),
    "Tokenizer": _tokenizer,
    "BiasSplitGelu": _half_last,
    "SkipLayerNormalization": _skip_norm,
    "SkipSimplifiedLayerNormalization": _skip_norm,
    "SkipGroupNorm": _skip_group_norm,
    "EmbedLayerNormalization": _embed_norm,
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "FusedMatMulActivation": _fused_matmul,
    "FusedGemm": _gemm,
    "FusedConv": lambda n: [(n.dtype(), window_rules.convolution(n))],
    "NhwcConv": _channels_last(window_rules.convolution),
    "NhwcFusedConv": _channels_last(window_rules.convolution),
    "NhwcMaxPool": _channels_last(window_rules.pool),
    "MatMulIntegerToFloat": _matmul(2),
    "DynamicQuantizeMatMul": _matmul(0),
    "QGemm": _qgemm,
    "MatMulNBits": _linear("N"),
    "MatMulBnb4": _bnb4,
    "GatherBlockQuantized": _gather_block,
    "DynamicQuantizeLSTM": _lstm,
    "QLinearAdd": _broadcast(0, 3),
    "QLinearMul": _broadcast(0, 3),
    "QLinearWhere": lambda n: [(n.dtype(1), shape_rules.broadcast_shapes((n.shape(i) for i in (0, 1, 4)), n.fresh))],
    "QLinearConcat": _concat,
    "QLinearAveragePool": _pool,
    "QLinearGlobalAveragePool": _global_pool,
    "QLinearReduceMean": lambda n: _reduced(n, n.dtype()),
    "ReduceSumInteger": lambda n: _reduced(n, DataType.INT32),
    "QuantizeLinear": lambda n: [(n.dtype(2) if n.has(2) else DataType.UINT8, n.shape())],
    "DequantizeLinear": lambda n: [(n.dtype(1), n.shape())],
    "Attention": _attention,
    "QAttention": _attention,
    "MultiHeadAttention": _multi_head,
    "DecoderMaskedMultiHeadAttention": _multi_head,
    "GroupQueryAttention": _group_query,
    "RelativePositionBias": _relative_bias,
    "GatedRelativePositionBias": _gated_bias,
    "Unique": _unique,
    "Rfft": _rfft,
    "Irfft": _irfft,
    "ComplexMul": _broadcast(0, 1),
    "ComplexMulConj": _broadcast(0, 1),
    "CropAndResize": _crop_and_resize,
    "CDist": _cdist,
    "UnfoldTensor": _unfold,
}
