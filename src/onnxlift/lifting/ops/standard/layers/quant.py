"""Quantisation: numbers as small integers (or small floats) times a scale.

A scale is one number, one for each index of an axis, or one for each block of indices along an axis. Constant scales
and zero points of one element are written as numbers.
"""

from __future__ import annotations

import math
from typing import Any

from onnxlift.ir.graph.types import INTEGERS, DataType
from onnxlift.lifting.code.expr import Expr, Literal, Star, to_expr
from onnxlift.lifting.ops.axes import from_front
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result, Unpack, data_type, torch_dtype
from onnxlift.lifting.ops.operand import Constant, Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.math.cast import FLOAT6, FLOAT8, SUB_BYTE, converted
from onnxlift.lifting.ops.standard.math.linalg import MatMulInteger, per_row
from onnxlift.lifting.ops.window import Ints

from .conv import ConvInteger

NOT_COMPUTED = (DataType.FLOAT8E8M0, DataType.INT32)  # scales that are converted first


@op("QuantizeLinear")
def QuantizeLinear(
    n: Node,
    x: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Result:
    """The division is done in the precision of the scale, unless `precision` asks for another."""
    target = _type_of(y_zero_point) or (data_type(output_dtype) if output_dtype else DataType.UINT8)
    computed = data_type(precision) if precision else _type_of(y_scale)
    if computed in NOT_COMPUTED or computed is None:
        computed = DataType.DOUBLE if computed == DataType.INT32 else DataType.FLOAT
    data = x if x.type.dtype == computed else converted(x, computed)
    if target in INTEGERS:
        scale = aligned(n, x, y_scale, axis, block_size, computed)
        zero = None if y_zero_point is None else aligned(n, x, y_zero_point, axis, block_size)
        return kernel("quantize")(data, scale, *integer_arguments(zero, target))
    quotient = data / _broadcasting(n, x, y_scale, axis, block_size, computed)
    if y_zero_point is not None and not _is_zero(y_zero_point):
        quotient = quotient + converted(aligned(n, x, y_zero_point, axis, block_size), computed)
    if target in FLOAT8:
        more = {} if saturate else {"saturate": Literal(False)}
        return kernel("to_float8")(quotient, torch_dtype(target), **more)
    if target in FLOAT6:
        return kernel("to_float6")(quotient, *FLOAT6[target])
    if target != DataType.FLOAT4E2M1:
        n.fail(f"it quantises to {target.name.lower()}")
    return kernel("to_float4_e2m1")(quotient)


@op("DequantizeLinear")
def DequantizeLinear(
    n: Node,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Result:
    """`(x - zero_point) * scale`, computed in float32.

    `torch.fake_quantize_per_tensor_affine` does not match a pair of QuantizeLinear and DequantizeLinear. It multiplies
    by the inverse of the scale instead of dividing, so some numbers are rounded the other way.
    """
    target = data_type(output_dtype) if output_dtype else _type_of(x_scale)
    scale = aligned(n, x, x_scale, axis, block_size, DataType.FLOAT)
    if x_zero_point is None or _is_zero(x_zero_point):
        result = (x if x.type.dtype in (DataType.FLOAT4E2M1, *FLOAT6) else x.float()) * scale
    else:
        zero = aligned(n, x, x_zero_point, axis, block_size)
        promoted = x.type.dtype in (DataType.INT8, DataType.UINT8) or not isinstance(zero, Expr)
        result = kernel("dequantize")(x, scale, zero if promoted else zero.float())
    return result if target == DataType.FLOAT else converted(result, target)


@op("DynamicQuantizeLinear")
def DynamicQuantizeLinear(n: Node, x: Tensor) -> Result:
    return Unpack(kernel("dynamic_quantize")(x), 3)


@op("QLinearMatMul")
def QLinearMatMul(
    n: Node,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Result:
    """A scale is one number, or one for each row of `a` or column of `b`. Factors of 8-bit floats are multiplied as
    they are, though ONNX's reference implementation cuts them to integers before."""
    if a.type.is_integer and b.type.is_integer:
        product = MatMulInteger(n, a, b, a_zero_point, b_zero_point)
    else:
        product = _centred(a, per_row(a_zero_point)) @ _centred(b, b_zero_point)
    return _requantized(n, product, per_row(a_scale), b_scale, y_scale, y_zero_point)


def _centred(x: Tensor, zero_point: Tensor) -> Expr:
    return x.float() if _is_zero(zero_point) else x.float() - zero_point.float()


@op("QLinearConv")
def QLinearConv(
    n: Node,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    B: Tensor | None,
    *,
    auto_pad: str,
    dilations: Ints | None,
    group: int,
    kernel_shape: Ints | None,
    pads: Ints | None,
    strides: Ints | None,
) -> Result:
    """The scale of the weights is one number, or one for each output channel."""
    total: Any = ConvInteger(
        n,
        x,
        w,
        x_zero_point,
        w_zero_point,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    rank = x.type.rank if x.type.rank is not None else w.type.rank
    if rank is None:
        n.fail("neither the rank of its input nor that of its weights is known")
    channels = (-1, *[1] * (rank - 2))
    if B is not None:
        total = total + B.view(*channels)
    per_channel = w_scale if w_scale.type.size == 1 or w_scale.type.rank == 0 else w_scale.view(*channels)
    return _requantized(n, total, x_scale, per_channel, y_scale, y_zero_point)


def _requantized(n: Node, total: Any, a_scale: Expr, b_scale: Expr, y_scale: Tensor, zero_point: Tensor) -> Expr:
    """Return sums of products in the scale of the result."""
    target = _type_of(zero_point)
    scale = a_scale * b_scale / y_scale
    if y_scale.type.dtype != DataType.FLOAT:
        scale = scale.float()
    numbers = [s.const for s in (a_scale, b_scale, y_scale) if isinstance(s, Constant) and s.number is not None]
    if len(numbers) == 3:
        scale = Literal(float(str((numbers[0] * numbers[1] / numbers[2]).reshape(-1)[0])))
    if target in FLOAT8:
        scaled = total * scale if _is_zero(zero_point) else total * scale + zero_point.float()
        return kernel("to_float8")(scaled, torch_dtype(target))
    if target not in INTEGERS:
        n.fail("its result is neither of integers nor of 8-bit floats")
    return kernel("to_integer")(total * scale, *integer_arguments(_number_or(zero_point), target))


def integer_arguments(zero: Any, target: DataType | None) -> list[Any]:
    """Return `zero_point, dtype, bits` for a kernel that rounds to integers, without trailing ones that equal the
    defaults."""
    assert target is not None
    bits = SUB_BYTE[target][0] if target in SUB_BYTE else 0
    given = [0 if zero is None else zero, torch_dtype(target), bits]
    if not bits:
        given.pop()
        if target == DataType.UINT8:
            given.pop()
            if given == [0]:
                given.pop()
    return given


def _type_of(x: Tensor | None) -> DataType | None:
    return None if x is None else x.type.dtype


def _is_zero(x: Tensor) -> bool:
    return isinstance(x, Constant) and (x.type.size or 2**31) <= 2**20 and not x.const.astype("float32").any()


def _number_or(x: Tensor) -> Any:
    """Return a constant of one element as a number, anything else as it is."""
    if isinstance(x, Constant) and x.type.size == 1 and x.type.dtype in INTEGERS:
        return int(x.const.reshape(-1)[0])
    number = x.number
    return x if number is None else number


def aligned(n: Node, x: Tensor, scale: Tensor, axis: int, block_size: int, dtype: DataType | None = None) -> Any:
    """Return a scale or a zero point as a number if it is one, else in a shape that broadcasts with `x`."""
    number = _number_or(scale)
    return _broadcasting(n, x, scale, axis, block_size, dtype) if isinstance(number, Expr) else number


def _broadcasting(n: Node, x: Tensor, scale: Tensor, axis: int, block_size: int, dtype: DataType | None = None) -> Expr:
    """Return a scale or a zero point in a shape that broadcasts with `x`, converted to `dtype` if that is given."""
    value: Expr = scale if dtype is None or scale.type.dtype == dtype else converted(scale, dtype)
    rank = x.type.rank
    if scale.type.rank == 0:
        return value
    if scale.type.rank is None:
        n.fail("the rank of its scale is not known")
    if scale.type.size == 1:
        return value if rank else value.reshape(())
    if block_size:
        return _repeated(n, x, scale, value, axis, block_size)
    if rank is None and axis >= 0:
        return value.view(-1, Star(to_expr([1]) * (x.ndim - (axis + 1))))
    if rank == 1:  # whatever the axis is
        return value
    trailing = -axis - 1 if rank is None else rank - 1 - from_front(axis, rank)
    return value.view(-1, *[1] * trailing) if trailing else value


def _repeated(n: Node, x: Tensor, scale: Tensor, value: Expr, axis: int, block_size: int) -> Expr:
    """Return a scale for each block of indices along an axis as a scale for each index."""
    blocks, size = scale.type.dim(axis), x.type.dim(axis)
    if blocks == 1:
        return value
    if block_size < 1:
        n.fail(f"its blocks have the size {block_size}")
    repeated = value.repeat_interleave(block_size, axis)
    if isinstance(blocks, int) and isinstance(size, int):
        if blocks != math.ceil(size / block_size):
            n.fail(f"its scale has {blocks} blocks of {block_size} along an axis of {size}")
        if blocks * block_size == size:
            return repeated
    return repeated.narrow(axis, 0, x.shape[axis])
