"""Templates of quantisation: nodes on integers, and pairs of QuantizeLinear and DequantizeLinear around layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.builder import Builder, UnsuitableError, Value
from fuzz.layers import window

STORED: list[type[np.integer[Any]]] = [np.uint8, np.int8]


def parameters(
    b: Builder, dtype: type[np.integer[Any]], shape: tuple[int, ...] = (), zero: int | None = None
) -> tuple[Value, Value]:
    """A scale and a zero point, mostly constants."""
    scale = (0.02 + 0.1 * b.data.random(shape)).astype(np.float32)
    point = b.choose.choice([0, 0, 3, 7]) if zero is None else zero
    return b.operand(scale, "scale"), b.operand(np.full(shape, point, dtype), "zero_point")


def quantised(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """`x` in steps, with its scale and zero point."""
    scale, zero = parameters(b, b.choose.choice(STORED))
    return b.one("QuantizeLinear", x, scale, zero), scale, zero


def quantise(b: Builder) -> None:
    """A pair of both, for all elements or along an axis, at times with other numbers on the way back."""
    x = b.pick("f", where=lambda v: v.dtype == np.float32 and v.rank > 0, empty=True)
    axis = b.choose.randrange(x.rank) if b.opset >= 13 and b.choose.random() < 0.5 else None
    shape = () if axis is None else (x.shape[axis],)
    dtype = b.choose.choice([*STORED, np.uint16, np.int16] if b.opset >= 21 else STORED)
    scale, zero = parameters(b, dtype, shape)
    y = b.one("QuantizeLinear", x, scale, zero, axis=axis)
    if b.choose.random() < 0.15:
        scale, zero = parameters(b, dtype, shape)
    z = b.one("DequantizeLinear", y, scale, zero, axis=axis)
    if b.choose.random() < 0.3:  # once more, after something that only moves elements
        moved = b.one(b.choose.choice(["Flatten", "Transpose", "Relu"]), z)
        if axis is None:
            b.one("DequantizeLinear", b.one("QuantizeLinear", moved, scale, zero), scale, zero)


def stored_weight(b: Builder, shape: tuple[int, ...], axis: int) -> Value:
    """A weight of integers with its DequantizeLinear, in one scale or one for each index of `axis`."""
    per_channel = b.opset >= 13 and b.choose.random() < 0.5
    dtype = b.choose.choice(STORED)
    low = 0 if dtype == np.uint8 else -60
    numbers = b.constant(b.integers(low, low + 120, shape).astype(dtype), "weight_quantized")
    channels = (shape[axis],) if per_channel else ()
    scale, zero = parameters(b, dtype, channels, 60 if dtype == np.uint8 else 0)
    if dtype == np.int8 and b.choose.random() < 0.3:
        return b.one("DequantizeLinear", numbers, scale, axis=axis if per_channel else None)
    return b.one("DequantizeLinear", numbers, scale, zero, axis=axis if per_channel else None)


def stored_bias(b: Builder, size: int) -> Value:
    scale = b.constant(np.asarray(0.003, np.float32), "bias_scale")
    numbers = b.constant(b.integers(-500, 500, (size,)).astype(np.int32), "bias_quantized")
    return b.one("DequantizeLinear", numbers, scale)


def linear_of_integers(b: Builder) -> None:
    x = b.pick("f", ranks=[2, 3], where=lambda v: v.dtype == np.float32)
    width = b.choose.choice([3, 5])
    if x.rank == 2 and b.choose.random() < 0.5:
        transposed = b.choose.choice([0, 1])
        shape = (width, x.shape[-1]) if transposed else (x.shape[-1], width)
        weight = stored_weight(b, shape, b.choose.choice([1 - transposed, 1 - transposed, transposed]))
        b.one("Gemm", x, weight, *([stored_bias(b, width)] if b.choose.random() < 0.7 else []), transB=transposed)
        return
    weight = stored_weight(b, (x.shape[-1], width), b.choose.choice([0, 1, 1]))
    y = b.one("MatMul", x, weight)
    if b.choose.random() < 0.7:
        b.one("Add", y, b.choose.choice([stored_bias, lambda b, n: b.weight((n,), "bias")])(b, width))


def conv_of_integers(b: Builder) -> None:
    x = b.pick("f", ranks=[3, 4], where=lambda v: v.dtype == np.float32)
    attributes = window(b, x, dilated=False)
    group = b.choose.choice([1, 1, x.shape[1]])
    out = group * b.choose.choice([1, 2])
    weight = stored_weight(b, (out, x.shape[1] // group, *attributes["kernel_shape"]), b.choose.choice([0, 0, 1]))
    b.one("Conv", x, weight, *([stored_bias(b, out)] if b.choose.random() < 0.5 else []), group=group, **attributes)


def table_of_integers(b: Builder) -> None:
    numbers = b.constant(b.integers(0, 250, (6, 4)).astype(np.uint8), "weight_quantized")
    indices = b.operand(b.integers(0, 6, b.choose.choice([(2, 3), (4,)])), "input_ids")
    scale, zero = parameters(b, np.uint8)
    if b.choose.random() < 0.5:
        b.one("DequantizeLinear", b.one("Gather", numbers, indices), scale, zero)
    else:
        b.one("Gather", b.one("DequantizeLinear", numbers, scale, zero), indices)


def dynamic_linear(b: Builder) -> None:
    """As quantize_dynamic leaves a linear layer, with variations: shared, without a bias, per column."""
    x = b.pick("f", ranks=[2, 3], where=lambda v: v.dtype == np.float32)
    numbers, step, zero = b.node("DynamicQuantizeLinear", [x], 3)
    for _ in range(b.choose.choice([1, 1, 2])):
        dtype = b.choose.choice(STORED)
        width = b.choose.choice([3, 5])
        low = -60 if dtype == np.int8 else 0
        weight = b.constant(b.integers(low, low + 120, (x.shape[-1], width)).astype(dtype), "weight_quantized")
        columns = (width,) if b.choose.random() < 0.3 else ()
        scale, point = parameters(b, dtype, columns)
        inputs = [numbers, weight, zero, point] if b.choose.random() < 0.7 else [numbers, weight, zero]
        total = b.one("Cast", b.one("MatMulInteger", *inputs), to=1)
        factor = b.one("Mul", step, scale) if b.choose.random() < 0.85 else step
        y = b.one("Mul", total, factor)
        if b.choose.random() < 0.6:
            b.one("Add", y, b.weight(b.choose.choice([(width,), (1,), (1, width)]), "bias"))


def qlinear_matmul(b: Builder) -> None:
    x = b.pick("f", ranks=[2, 3], where=lambda v: v.dtype == np.float32)
    numbers, scale, zero = quantised(b, x)
    dtype = b.choose.choice(STORED) if zero.dtype == np.uint8 else np.int8
    low = -30 if dtype == np.int8 else 0
    weight = b.constant(b.integers(low, low + 60, (x.shape[-1], 4)).astype(dtype), "weight_quantized")
    weight_scale, weight_zero = parameters(b, dtype)
    result_scale, result_zero = parameters(b, zero.dtype.type)
    y = b.one("QLinearMatMul", numbers, scale, zero, weight, weight_scale, weight_zero, result_scale, result_zero)
    b.one("DequantizeLinear", y, result_scale, result_zero)


def qlinear_conv(b: Builder) -> None:
    x = b.pick("f", ranks=[4], where=lambda v: v.dtype == np.float32)
    numbers, scale, zero = quantised(b, x)
    attributes = window(b, x, dilated=True)
    dtype = b.choose.choice(STORED) if zero.dtype == np.uint8 else np.int8
    low = -30 if dtype == np.int8 else 0
    out = b.choose.choice([2, 3])
    shape = (out, x.shape[1], *attributes["kernel_shape"])
    weight = b.constant(b.integers(low, low + 60, shape).astype(dtype), "weight_quantized")
    if b.choose.random() < 0.3:
        b.one("ConvInteger", *([numbers, weight, zero] if zero.dtype == np.uint8 else [numbers, weight]), **attributes)
        return
    channels = (out,) if b.choose.random() < 0.5 and dtype == np.int8 else ()
    weight_scale, weight_zero = parameters(b, dtype, channels, 0 if channels else None)
    result_scale, result_zero = parameters(b, zero.dtype.type)
    inputs = [numbers, scale, zero, weight, weight_scale, weight_zero, result_scale, result_zero]
    if b.choose.random() < 0.5:
        inputs.append(b.constant(b.integers(-90, 90, (out,)).astype(np.int32), "bias_quantized"))
    y = b.one("QLinearConv", *inputs, **attributes)
    b.one("DequantizeLinear", y, result_scale, result_zero)


def blocks(b: Builder) -> None:
    """Scales of blocks along an axis."""
    if b.opset < 21:
        raise UnsuitableError
    x = b.pick("f", ranks=[2], where=lambda v: v.dtype == np.float32 and v.shape[-1] % 2 == 0)
    dtype = b.choose.choice(STORED)
    scale, zero = parameters(b, dtype, (x.shape[0], x.shape[1] // 2))
    y = b.one("QuantizeLinear", x, scale, zero, axis=1, block_size=2)
    b.one("DequantizeLinear", y, scale, zero, axis=1, block_size=2)


TEMPLATES = {
    quantise: (10, 2),
    linear_of_integers: (10, 2),
    conv_of_integers: (10, 1),
    table_of_integers: (10, 1),
    dynamic_linear: (11, 2),
    qlinear_matmul: (10, 1),
    qlinear_conv: (10, 1),
    blocks: (21, 1),
}
