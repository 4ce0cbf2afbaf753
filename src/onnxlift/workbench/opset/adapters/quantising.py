"""Casts and quantisation.

- Cast: 6 (`to` is a number; before, a name), 9 (strings), 13 (bfloat16), 19 (float8, `saturate`), 21 (int4), 23
  (float4), 24 (float8e8m0, `round_mode`), 25 (int2)
- CastLike: 15, 19 (`saturate`), 24 (`round_mode`)
- QuantizeLinear, DequantizeLinear: 10, 13 (`axis`), 19 (float8, float16 scales, `saturate`), 21 (int16, int4,
  `block_size`, `output_dtype`), 23 (`precision`; `output_dtype` of DequantizeLinear)

`saturate` and `round_mode` have an effect on float8 alone, which older opsets refuse by its type.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.schema import schema_for

from ..spelling import size_of, unsqueeze
from ..step import Result, Step, Value, adapter

D = ir.DataType
_OLD_NAMES = {"float": D.FLOAT}
_NARROW = (D.INT8, D.UINT8, D.INT16, D.UINT16, D.INT32)
_HELD_BY = {
    **dict.fromkeys((D.INT2, D.INT4), D.INT8),
    **dict.fromkeys((D.UINT2, D.UINT4), D.UINT8),
    **dict.fromkeys((D.FLOAT4E2M1, D.FLOAT8E4M3FN, D.FLOAT8E4M3FNUZ, D.FLOAT8E5M2, D.FLOAT8E5M2FNUZ), D.FLOAT),
}
"""A type that holds all numbers of one that older opsets do not have. Constants are written in it."""


@adapter("Cast", 1, 6)
def type_becomes_a_number(s: Step, *, to: str) -> Result:
    name = str(to).upper()
    if name not in D.__members__:
        s.refuse(f"it casts to {to!r}, which is no type")
    return s.again(to=int(getattr(D, name)))


@adapter("Cast", 6, 1)
def type_becomes_a_name(s: Step, *, to: int) -> Result:
    return s.again(to=D(to).name)


@adapter(["Cast", "QuantizeLinear"], 19, 13)
@adapter("CastLike", 19, 15)
def saturation_of_floats_of_8_bits(s: Step) -> Result:
    return s.again(saturate=None)


@adapter(["Cast", "CastLike"], 24, 23)
def rounding_of_floats_of_8_bits(s: Step) -> Result:
    return s.again(round_mode=None)


@adapter("DequantizeLinear", 25, 24)
@adapter("DequantizeLinear", 21, 19)
@adapter("DequantizeLinear", 23, 21)
@adapter("DequantizeLinear", 19, 13)
@adapter("DequantizeLinear", 13, 10)
def dequantised(
    s: Step,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None,
    *,
    axis: int,
    block_size: int | None,
    output_dtype: int | None,
) -> Result:
    """`(x - zero_point) * scale` in the type of the scale, where the older operator has no such type, axis or block.

    Constants of a type that the older opset lacks altogether are written in a wider one."""
    own = s.dtype(x_scale)
    if _is_lost(s, s.dtype(x)):
        x = _held(s, x)
        x_zero_point = None if x_zero_point is None else _held(s, x_zero_point)
    wanted = D(output_dtype) if output_dtype else own
    if s.old == 25:
        return s.again(x, x_scale, x_zero_point)
    if s.old == 23 and wanted == own and s.dtype(x) != D.FLOAT:
        return s.again(output_dtype=None)
    if wanted == own and not block_size and _is_known(s, s.dtype(x), x_scale):
        unknown = {"output_dtype": None, "block_size": None, **({"axis": None} if s.old == 13 else {})}
        return s.again(x, x_scale, x_zero_point, **unknown)
    if s.dtype(x) not in (*_NARROW, D.FLOAT):
        s.refuse(f"DequantizeLinear does not take {s.dtype(x).name.lower()} before opset {s.old}")
    inner = D.DOUBLE if s.dtype(x) == D.INT32 else D.FLOAT
    number = s.cast(x, inner)
    if x_zero_point is not None:
        number = s.Sub(number, _along(s, s.cast(x_zero_point, inner), x, axis, block_size))
    return s.cast(s.Mul(number, _along(s, s.cast(x_scale, inner), x, axis, block_size)), wanted)


@adapter("QuantizeLinear", 21, 19)
@adapter("QuantizeLinear", 13, 10)
def quantised(
    s: Step,
    x: Value,
    y_scale: Value,
    y_zero_point: Value | None,
    *,
    axis: int,
    block_size: int | None,
    output_dtype: int | None,
) -> Result:
    """`round(x / scale) + zero_point`, cut off at the limits of the type, where the older operator has no such type,
    axis or block."""
    wanted = s.dtype(y_zero_point) if y_zero_point is not None else D(output_dtype) if output_dtype else D.UINT8
    if not block_size and _is_known(s, wanted, y_scale):
        zero = y_zero_point
        if zero is None and wanted != D.UINT8:
            zero = s.Expand(s.array(0, wanted), s.Shape(y_scale))
        return s.again(x, y_scale, zero, output_dtype=None, block_size=None, **({"axis": None} if s.old == 13 else {}))
    if wanted not in _NARROW:
        s.refuse(f"QuantizeLinear does not give {wanted.name.lower()} before opset {s.old}")
    number = s.Round(s.Div(s.cast(x, D.FLOAT), _along(s, s.cast(y_scale, D.FLOAT), x, axis, block_size)))
    if y_zero_point is not None:
        number = s.Add(number, _along(s, s.cast(y_zero_point, D.FLOAT), x, axis, block_size))
    limits = np.iinfo(wanted.numpy())
    return s.cast(s.Clip(number, s.array(limits.min, D.FLOAT), s.array(limits.max, D.FLOAT)), wanted)


@adapter("QuantizeLinear", 23, 21)
def precision_of_the_division(
    s: Step, x: Value, y_scale: Value, y_zero_point: Value | None, *, precision: int
) -> Result:
    """The division is done in the type of the scale, if no other one is told; before, both are of one type."""
    wanted = D(precision) if precision else s.dtype(y_scale)
    if s.dtype(x) == s.dtype(y_scale) == wanted:
        return s.again(precision=None)
    if wanted not in (s.dtype(x), s.dtype(y_scale)):
        s.refuse("the precision of the division is not told before opset 23")
    return s.again(s.cast(x, wanted), s.cast(y_scale, wanted), y_zero_point, precision=None)


def _is_lost(s: Step, dtype: D) -> bool:
    """Tell whether the opset that the step leads to has no DequantizeLinear, and no Cast, of this type."""
    schema = schema_for("", "DequantizeLinear", s.opset)
    name = f"tensor({dtype.name.lower()})"
    return dtype in _HELD_BY and schema is not None and name not in schema.inputs[0].types


def _held(s: Step, value: Value) -> Value:
    """Return a constant in a wider type."""
    dtype = s.dtype(value)
    known = s.constant(value)
    if known is None:
        s.refuse(f"DequantizeLinear does not take {dtype.name.lower()} before opset {s.old}")
    wide = _HELD_BY[dtype]
    return s.array(known.astype(wide.numpy()), wide)


def _is_known(s: Step, dtype: ir.DataType, scale: Value) -> bool:
    """Tell whether the older operator takes this type and this scale."""
    if dtype == D.FLOAT:
        return False
    if s.old == 13:
        is_one = scale.shape is not None and all(size == 1 for size in scale.shape)
        return is_one and dtype in (D.UINT8, D.INT8, D.INT32)
    if s.old == 19:
        return s.dtype(scale) == D.FLOAT
    return s.old != 21 or dtype not in (D.INT16, D.UINT16)


def _along(s: Step, value: Value, x: Value, axis: int, block_size: int | None) -> Value:
    """Return a scale or zero point in a form that broadcasts with `x`."""
    place = axis % max(s.rank(x), 1)
    if block_size:
        repeated = s.Expand(
            unsqueeze(s, value, [place + 1]), s.array([1] * (place + 1) + [block_size] + [1] * (s.rank(x) - place - 1))
        )
        joined = s.Reshape(repeated, s.Concat(*_sizes(s, x, value, place, block_size), axis=0))
        return s.Slice(joined, s.array([0]), size_of(s, x, place), s.array([place]))
    if value.shape is None:
        # A value that this step has made: it is of the shape of what it was cast from.
        source = value.producer()
        shape = None if source is None or source.inputs[0] is None else source.inputs[0].shape
    else:
        shape = value.shape
    if shape is None:
        s.refuse("the shape of its scale is not known")
    if len(shape) == 0:
        return value
    if len(shape) == 1 and shape[0] == 1:
        return value
    behind = s.rank(x) - place - 1
    return unsqueeze(s, value, list(range(1, behind + 1))) if behind else value


def _sizes(s: Step, x: Value, value: Value, place: int, block_size: int) -> list[Value]:
    sizes = [size_of(s, x, axis) for axis in range(s.rank(x))]
    sizes[place] = s.Mul(size_of(s, value, place), s.array([block_size]))
    return sizes
