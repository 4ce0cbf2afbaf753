"""Bodies of ONNX Runtime's quantised operators.

    QLinearAdd(a, .., b, .., c)         ->   QuantizeLinear(Add(DequantizeLinear(a), DequantizeLinear(b)))
    DynamicQuantizeMatMul(A, B, ..)     ->   MatMulInteger of DynamicQuantizeLinear(A) and B, times both scales

The first is how ONNX Runtime documents these operators. Its kernels fold the scales into one factor where they can, so
a number half way between two steps may be rounded to the other one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from .body import BodyBuilder, Value, body, is_scalar, rank
from .microsoft_fused import channels_first, channels_last

Ints = tuple[int, ...]


@body("QuantizeLinear")
def QuantizeLinear(
    b: BodyBuilder, x: Value, y_scale: Value, y_zero_point: Value | None, *, axis: int | None = None
) -> Value:
    return b.QuantizeLinear(x, y_scale, y_zero_point, axis=axis)


@body("DequantizeLinear")
def DequantizeLinear(
    b: BodyBuilder, x: Value, x_scale: Value, x_zero_point: Value | None, *, axis: int | None = None
) -> Value:
    return b.DequantizeLinear(x, x_scale, x_zero_point, axis=axis)


def quantized(b: BodyBuilder, x: Value, scale: Value, zero_point: Value | None, like: Value) -> Value:
    """Return `x` in steps of `scale`, as integers of the type of the input `like`."""
    if zero_point is not None:
        return b.QuantizeLinear(x, scale, zero_point)
    return b.QuantizeLinear(x, scale, output_dtype=None if like.dtype is None else int(like.dtype))


@body("QLinearAdd", "QLinearMul")
def QLinearAdd(
    b: BodyBuilder,
    A: Value,
    A_scale: Value,
    A_zero_point: Value | None,
    B: Value,
    B_scale: Value,
    B_zero_point: Value | None,
    C_scale: Value,
    C_zero_point: Value | None,
) -> Value:
    operation = b.Add if b.node.op_type == "QLinearAdd" else b.Mul
    result = operation(b.DequantizeLinear(A, A_scale, A_zero_point), b.DequantizeLinear(B, B_scale, B_zero_point))
    return quantized(b, result, C_scale, C_zero_point, A)


@body("QLinearWhere")
def QLinearWhere(
    b: BodyBuilder,
    condition: Value,
    X: Value,
    x_scale: Value,
    x_zero_point: Value,
    Y: Value,
    y_scale: Value,
    y_zero_point: Value,
    z_scale: Value,
    z_zero_point: Value,
) -> Value:
    x, y = b.DequantizeLinear(X, x_scale, x_zero_point), b.DequantizeLinear(Y, y_scale, y_zero_point)
    return quantized(b, b.Where(condition, x, y), z_scale, z_zero_point, X)


@body("QLinearConcat")
def QLinearConcat(b: BodyBuilder, Y_scale: Value, Y_zero_point: Value, *inputs: Value | None, axis: int) -> Value:
    """The inputs come in threes: tensor, scale, zero point."""
    if len(inputs) % 3 or None in inputs[0::3] or None in inputs[1::3]:
        b.fail("its inputs are not tensors with a scale and a zero point each")
    parts = [b.DequantizeLinear(*inputs[i : i + 3]) for i in range(0, len(inputs), 3)]
    return b.QuantizeLinear(b.Concat(*parts, axis=axis), Y_scale, Y_zero_point)


def _around(
    b: BodyBuilder,
    function: Callable[[Value], Value],
    X: Value,
    X_scale: Value,
    X_zero_point: Value | None,
    Y_scale: Value,
    Y_zero_point: Value | None,
) -> Value:
    """Return `function` of the dequantised X, quantised again."""
    return quantized(b, function(b.DequantizeLinear(X, X_scale, X_zero_point)), Y_scale, Y_zero_point, X)


@body("QLinearSigmoid")
def QLinearSigmoid(
    b: BodyBuilder, X: Value, X_scale: Value, X_zero_point: Value | None, Y_scale: Value, Y_zero_point: Value | None
) -> Value:
    return _around(b, b.Sigmoid, X, X_scale, X_zero_point, Y_scale, Y_zero_point)


@body("QLinearLeakyRelu")
def QLinearLeakyRelu(
    b: BodyBuilder,
    X: Value,
    X_scale: Value,
    X_zero_point: Value | None,
    Y_scale: Value,
    Y_zero_point: Value | None,
    *,
    alpha: float = 0.01,
) -> Value:
    return _around(b, lambda x: b.LeakyRelu(x, alpha=alpha), X, X_scale, X_zero_point, Y_scale, Y_zero_point)


@body("QLinearSoftmax")
def QLinearSoftmax(
    b: BodyBuilder,
    X: Value,
    X_scale: Value,
    x_zero_point: Value | None,
    y_scale: Value,
    y_zero_point: Value,
    *,
    axis: int = -1,
    opset: int,
) -> Value:
    """`opset` is that of the Softmax: until opset 12 the softmax goes over all axes from `axis` on."""
    axes = rank(X)

    def softmax(x: Value) -> Value:
        if opset >= 13 or axis == -1 or (axes is not None and axis == axes - 1):
            return b.Softmax(x, axis=axis)
        return b.Reshape(b.Softmax(b.Flatten(x, axis=axis), axis=-1), b.Shape(x))

    return _around(b, softmax, X, X_scale, x_zero_point, y_scale, y_zero_point)


@body("QLinearReduceMean")
def QLinearReduceMean(
    b: BodyBuilder,
    data: Value,
    data_scale: Value,
    data_zero_point: Value | None,
    reduced_scale: Value,
    reduced_zero_point: Value | None,
    *,
    axes: Ints,
    keepdims: int,
) -> Value:
    """Follow the documentation, since ONNX Runtime's CPU build cannot run it."""
    return _around(
        b,
        lambda x: b.ReduceMean(x, b.ints(*axes), keepdims=keepdims),
        data,
        data_scale,
        data_zero_point,
        reduced_scale,
        reduced_zero_point,
    )


@body("QLinearAveragePool")
def QLinearAveragePool(
    b: BodyBuilder,
    X: Value,
    x_scale: Value,
    x_zero_point: Value | None,
    y_scale: Value,
    y_zero_point: Value | None,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    window = {"auto_pad": auto_pad, "kernel_shape": kernel_shape, "pads": pads, "strides": strides}
    counted = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}

    def pool(x: Value) -> Value:
        return _on_channels_first(b, x, X, channels_last, lambda x: b.AveragePool(x, **window, **counted))

    zero = b.known(y_zero_point)
    if y_zero_point is None or (zero is not None and zero.size == 1 and zero.numpy().item() % 2 == 0):
        return _around(b, pool, X, x_scale, x_zero_point, y_scale, y_zero_point)
    # This kernel adds the zero point before it rounds. If that is odd, a half goes to the other side.
    mean = pool(b.DequantizeLinear(X, x_scale, x_zero_point))
    number = b.Round(b.Add(b.Div(mean, y_scale), b.CastLike(y_zero_point, y_scale)))
    if X.dtype not in (ir.DataType.UINT8, ir.DataType.INT8):
        b.fail("the element type of its input is not known")
    limits = np.iinfo(X.dtype.numpy())
    cut = b.Clip(number, b.number(limits.min, y_scale), b.number(limits.max, y_scale))
    return b.CastLike(cut, y_zero_point)


@body("QLinearGlobalAveragePool")
def QLinearGlobalAveragePool(
    b: BodyBuilder,
    X: Value,
    x_scale: Value,
    x_zero_point: Value,
    y_scale: Value,
    y_zero_point: Value,
    *,
    channels_last: int = 0,
) -> Value:
    def pool(x: Value) -> Value:
        return _on_channels_first(b, x, X, channels_last, b.GlobalAveragePool)

    return _around(b, pool, X, x_scale, x_zero_point, y_scale, y_zero_point)


def _on_channels_first(b: BodyBuilder, x: Value, like: Value, last: int, function: Callable[[Value], Value]) -> Value:
    """Return `function` of `x`, with the channels moved behind the batch for the call if they are last. `x` has the
    axes of the input `like`."""
    if not last:
        return function(x)
    x.shape = like.shape
    return channels_last(b, function(channels_first(b, x)), rank(like))


@body("QLinearConv")
def QLinearConv(
    b: BodyBuilder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value,
    w: Value,
    w_scale: Value,
    w_zero_point: Value,
    y_scale: Value,
    y_zero_point: Value,
    B: Value | None,
    *,
    auto_pad: str = "NOTSET",
    channels_last: int = 0,
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    """ONNX's own QLinearConv, but the channels may be the last axis."""
    rest = [x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point]
    inputs = rest if B is None else [*rest, B]
    window = {"auto_pad": auto_pad, "dilations": dilations, "kernel_shape": kernel_shape, "pads": pads}
    return _on_channels_first(
        b, x, x, channels_last, lambda x: b.QLinearConv(x, *inputs, **window, group=group, strides=strides)
    )


@body("QGemm")
def QGemm(
    b: BodyBuilder,
    A: Value,
    a_scale: Value,
    a_zero_point: Value,
    B: Value,
    b_scale: Value,
    b_zero_point: Value,
    C: Value | None,
    y_scale: Value | None,
    y_zero_point: Value | None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """C is in steps of `a_scale * b_scale`. Without `y_scale` the result is not quantised."""
    left = b.Transpose(A, perm=[1, 0]) if transA else A
    right = b.Transpose(B, perm=[1, 0]) if transB else B
    total = b.MatMulInteger(left, right, a_zero_point, b_zero_point)
    y = _scaled(b, total if C is None else b.Add(total, C), a_scale, b_scale)
    if alpha != 1:
        y = b.Mul(y, b.number(alpha, a_scale))
    return y if y_scale is None else b.QuantizeLinear(y, y_scale, y_zero_point)


def _scaled(b: BodyBuilder, total: Value, a_scale: Value, b_scale: Value) -> Value:
    """Return the numbers that sums of integer products stand for."""
    if not is_scalar(a_scale):
        b.fail("the scale of its first operand is not one number")
    return b.Mul(b.CastLike(total, a_scale), b.Mul(a_scale, b_scale))


@body("MatMulIntegerToFloat")
def MatMulIntegerToFloat(
    b: BodyBuilder,
    A: Value,
    B: Value,
    a_scale: Value,
    b_scale: Value,
    a_zero_point: Value | None,
    b_zero_point: Value | None,
    bias: Value | None,
) -> Value:
    y = _scaled(b, b.MatMulInteger(A, B, a_zero_point, b_zero_point), a_scale, b_scale)
    return y if bias is None else b.Add(y, bias)


@body("DynamicQuantizeMatMul")
def DynamicQuantizeMatMul(
    b: BodyBuilder, A: Value, B: Value, b_scale: Value, b_zero_point: Value | None, bias: Value | None
) -> Value:
    """A is quantised to the range of its values."""
    a, a_scale, a_zero_point = b.several(3, "DynamicQuantizeLinear", A)
    scale = b.Mul(a_scale, b_scale)
    y = b.Mul(b.CastLike(b.MatMulInteger(a, B, a_zero_point, b_zero_point), b_scale), scale)
    return y if bias is None else b.Add(y, bias)


@body("QEmbedLayerNormalization")
def QEmbedLayerNormalization(
    b: BodyBuilder,
    input_ids: Value,
    segment_ids: Value | None,
    word_embedding_quant: Value,
    position_embedding_quant: Value,
    segment_embedding: Value | None,
    gamma_quant: Value,
    beta_quant: Value,
    mask: Value | None,
    word_embedding_scale: Value,
    position_embedding_scale: Value,
    segment_embedding_scale: Value | None,
    gamma_scale: Value,
    beta_scale: Value,
    word_embedding_zero_point: Value,
    position_embedding_zero_point: Value,
    segment_embedding_zero_point: Value | None,
    gamma_zero_point: Value,
    beta_zero_point: Value,
    *,
    epsilon: float = 1e-12,
) -> list[Value | None]:
    """EmbedLayerNormalization of dequantised tables and weights."""
    word = b.DequantizeLinear(
        b.Gather(word_embedding_quant, input_ids), word_embedding_scale, word_embedding_zero_point
    )
    length = b.Squeeze(b.Shape(input_ids, start=1, end=2))
    positions = b.Range(b.constant(np.asarray(0)), length, b.constant(np.asarray(1)))
    rows = b.Gather(position_embedding_quant, positions)
    total = b.Add(word, b.DequantizeLinear(rows, position_embedding_scale, position_embedding_zero_point))
    if segment_embedding is not None and segment_ids is not None:
        rows = b.Gather(segment_embedding, segment_ids)
        total = b.Add(total, b.DequantizeLinear(rows, segment_embedding_scale, segment_embedding_zero_point))
    gamma = b.DequantizeLinear(gamma_quant, gamma_scale, gamma_zero_point)
    beta = b.DequantizeLinear(beta_quant, beta_scale, beta_zero_point)
    count = None if mask is None else b.ReduceSum(mask, b.ints(1), keepdims=0)
    return [b.LayerNormalization(total, gamma, beta, axis=-1, epsilon=epsilon), count]


@body("MulInteger")
def MulInteger(b: BodyBuilder, A: Value, A_zero_point: Value | None, B: Value, B_zero_point: Value | None) -> Value:
    """Follow the documentation, since ONNX Runtime's CPU build cannot run it."""
    return b.Mul(_centred(b, A, A_zero_point), _centred(b, B, B_zero_point))


def _centred(b: BodyBuilder, x: Value, zero_point: Value | None) -> Value:
    wide = _int32(b, x)
    return wide if zero_point is None else b.Sub(wide, _int32(b, zero_point))


def _int32(b: BodyBuilder, x: Value) -> Value:
    return b.Cast(x, to=int(ir.DataType.INT32))


@body("ReduceSumInteger")
def ReduceSumInteger(b: BodyBuilder, data: Value, *, axes: Ints, keepdims: int) -> Value:
    """Follow the documentation, since ONNX Runtime's CPU build cannot run it."""
    return b.ReduceSum(_int32(b, data), b.ints(*axes), keepdims=keepdims)


@body("MatMulInteger16")
def MatMulInteger16(b: BodyBuilder, A: Value, B: Value) -> Value:
    return b.MatMul(_int32(b, A), _int32(b, B))
