"""The type of a value, as known before the model runs: its kind, element type and shape."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

import onnx
import onnx_ir as ir

Dim = int | str | None
"""A size: known, named (equal names are equal sizes), or unknown."""

Kind = Literal["tensor", "sequence", "optional", "map", "list of maps"]

ONNX_TYPE = "onnx_type"
"""Key in `Value.meta` of a TypeProto that onnx-ir has no type for (a map)."""

_INVENTED = re.compile(r"\bunk__\d+\b")  # a size that inference has named, alone or in a formula

DataType = ir.DataType

FLOATS = frozenset(
    {
        DataType.FLOAT,
        DataType.DOUBLE,
        DataType.FLOAT16,
        DataType.BFLOAT16,
        DataType.FLOAT8E4M3FN,
        DataType.FLOAT8E4M3FNUZ,
        DataType.FLOAT8E5M2,
        DataType.FLOAT8E5M2FNUZ,
        DataType.FLOAT8E8M0,
        DataType.FLOAT6E2M3,
        DataType.FLOAT6E3M2,
        DataType.FLOAT4E2M1,
    }
)
NUMBERS = FLOATS | {DataType.INT8, DataType.UINT8}
"""The types of what a model computes with: floats, and the bytes that stand for them in a quantised model."""
SIGNED = frozenset({DataType.INT64, DataType.INT32, DataType.INT16, DataType.INT8, DataType.INT4, DataType.INT2})
UNSIGNED = frozenset(
    {DataType.UINT64, DataType.UINT32, DataType.UINT16, DataType.UINT8, DataType.UINT4, DataType.UINT2}
)
INTEGERS = SIGNED | UNSIGNED
COMPLEX = frozenset({DataType.COMPLEX64, DataType.COMPLEX128})

PRECISION = {DataType.DOUBLE: 1e-12, DataType.FLOAT: 1e-6, DataType.FLOAT16: 2e-3, DataType.BFLOAT16: 1e-2}
"""The relative error that a constant may have from the number that it stands for: a few roundings of its type."""

# The torch dtype that holds each element type. Integers below a byte use the next wider type; strings are numpy arrays.
TORCH_DTYPE = {
    DataType.FLOAT: "float32",
    DataType.DOUBLE: "float64",
    DataType.FLOAT16: "float16",
    DataType.BFLOAT16: "bfloat16",
    DataType.FLOAT8E4M3FN: "float8_e4m3fn",
    DataType.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    DataType.FLOAT8E5M2: "float8_e5m2",
    DataType.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    DataType.FLOAT8E8M0: "float8_e8m0fnu",
    DataType.FLOAT6E2M3: "float32",
    DataType.FLOAT6E3M2: "float32",
    DataType.FLOAT4E2M1: "float32",
    DataType.INT64: "int64",
    DataType.INT32: "int32",
    DataType.INT16: "int16",
    DataType.INT8: "int8",
    DataType.INT4: "int8",
    DataType.INT2: "int8",
    DataType.UINT64: "uint64",
    DataType.UINT32: "uint32",
    DataType.UINT16: "uint16",
    DataType.UINT8: "uint8",
    DataType.UINT4: "uint8",
    DataType.UINT2: "uint8",
    DataType.BOOL: "bool",
    DataType.COMPLEX64: "complex64",
    DataType.COMPLEX128: "complex128",
}


@dataclass(frozen=True)
class ValueType:
    """The kind, element type and shape of a value; None where they are unknown.

    Of a sequence or an optional, `dtype` and `shape` are those of the tensors inside."""

    dtype: DataType | None = None
    shape: tuple[Dim, ...] | None = None
    kind: Kind = "tensor"

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def size(self) -> int | None:
        """The number of elements, if every dimension is known."""
        if self.shape is None or not all(isinstance(d, int) for d in self.shape):
            return None
        return math.prod(d for d in self.shape if isinstance(d, int))

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def is_integer(self) -> bool:
        return self.dtype in INTEGERS

    @property
    def is_bool(self) -> bool:
        return self.dtype == DataType.BOOL

    def dim(self, axis: int) -> Dim:
        """Return the size of one axis, counted from the end if negative; None if unknown or out of range."""
        if self.shape is None or not -len(self.shape) <= axis < len(self.shape):
            return None
        return self.shape[axis]

    def __str__(self) -> str:
        name = self.dtype.name.lower() if self.dtype is not None else "?"
        name = {"float": "float32", "double": "float64"}.get(name, name)
        if self.kind in ("map", "list of maps"):
            return f"{self.kind} to {name}"
        dims = shape_text(self.shape)
        return f"{name} {dims}" if self.kind == "tensor" else f"{self.kind} of {name} {dims}"


def shape_text(shape: tuple[Dim, ...] | None) -> str:
    """Write a shape for people: `(batch, 3, ?)`. A size without a name is a question mark."""
    return "(?)" if shape is None else f"({', '.join(map(_dim_text, shape))})"


def _dim_text(dim: Dim) -> str:
    return "?" if dim is None or _INVENTED.search(str(dim)) else str(dim)


def type_of(value: ir.Value | None) -> ValueType:
    """Return the type that inference has found for `value`."""
    if value is None:
        return ValueType()
    kind: Kind = "tensor"
    inner = value.type
    if type(inner) is ir.TensorType:  # nearly always, and the questions below are slow
        return ValueType(None if inner.dtype is DataType.UNDEFINED else inner.dtype, shape_of(value))
    if ONNX_TYPE in value.meta:
        return _type_of_maps(value.meta[ONNX_TYPE])
    if isinstance(inner, ir.OptionalType):
        kind, inner = "optional", inner.elem_type
    if isinstance(inner, ir.SequenceType):
        kind = "sequence"
    dtype = value.dtype
    if dtype == DataType.UNDEFINED:
        dtype = None
    return ValueType(dtype, shape_of(value), kind)


def _type_of_maps(proto: onnx.TypeProto) -> ValueType:
    """Return the type of a map or of a sequence of maps. Its element type is that of the map's values."""
    inside = proto.sequence_type.elem_type if proto.HasField("sequence_type") else proto
    if not inside.HasField("map_type"):
        return ValueType()
    dtype = DataType(inside.map_type.value_type.tensor_type.elem_type)
    return ValueType(None if dtype == DataType.UNDEFINED else dtype, kind="map" if inside is proto else "list of maps")


def shape_of(value: ir.Value) -> tuple[Dim, ...] | None:
    if value.shape is None:
        return None
    return tuple(d if isinstance(d, int) else d.value for d in value.shape)


def is_float(value: ir.Value | None) -> bool:
    """Tell whether the value is a tensor of a floating-point type that PyTorch computes with."""
    return value is not None and value.dtype in PRECISION


def is_close(number: float, expected: float, dtype: ir.DataType | None) -> bool:
    """Tell whether `number`, computed from constants of this type, is `expected` up to rounding."""
    return math.isclose(number, expected, rel_tol=1e-12 if dtype is None else PRECISION.get(dtype, 1e-12))
