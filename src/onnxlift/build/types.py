"""Element types, shapes and types of values, as users write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxlift.ir.graph.types import type_of

from .errors import BuildError, nearest
from .value import Value

Dtype = str | type | np.dtype[Any] | ir.DataType
"""An element type: "float32", np.float32, ir.DataType.FLOAT; "string" and "bool" as well."""
Size = int | str | None
"""A size: a number, a name, or None for one of which nothing is known."""

Array = np.ndarray[Any, Any]
Number = bool | int | float | str | np.generic
Operand = Value | Number | Array | Sequence[Any]
"""What an operator takes as an input: a value, a number, or an array."""
Ints = Sequence[int] | Array
Floats = Sequence[float] | Array
Strings = Sequence[str]

_NAMES = {
    **{each.name.lower(): each for each in ir.DataType if each is not ir.DataType.UNDEFINED},
    "float32": ir.DataType.FLOAT,
    "float64": ir.DataType.DOUBLE,
    "str": ir.DataType.STRING,
    "float8_e4m3fn": ir.DataType.FLOAT8E4M3FN,
    "float8_e4m3fnuz": ir.DataType.FLOAT8E4M3FNUZ,
    "float8_e5m2": ir.DataType.FLOAT8E5M2,
    "float8_e5m2fnuz": ir.DataType.FLOAT8E5M2FNUZ,
    "float8_e8m0fnu": ir.DataType.FLOAT8E8M0,
    "float4_e2m1fn": ir.DataType.FLOAT4E2M1,
}
_SHOWN = {ir.DataType.FLOAT: "float32", ir.DataType.DOUBLE: "float64"}


def data_type(given: Dtype) -> ir.DataType:
    """Return the element type that is meant, or raise a BuildError."""
    if isinstance(given, ir.DataType) and given is not ir.DataType.UNDEFINED:
        return given
    if isinstance(given, str):
        found = _NAMES.get(given.lower())
        if found is None:
            raise BuildError(f"there is no element type {given!r}{nearest(given, _NAMES)}")
        return found
    try:
        dtype: np.dtype[Any] = np.dtype(given)  # type: ignore[arg-type]
        return ir.DataType.STRING if dtype.kind in "OUST" else ir.DataType.from_numpy(dtype)
    except (TypeError, ValueError):
        raise BuildError(
            f'there is no element type {given!r}: write "float32", "int64", "bool" and the like.'
        ) from None


def dtype_text(dtype: ir.DataType | None) -> str:
    """Write an element type for a message: `float32`."""
    return "?" if dtype is None else _SHOWN.get(dtype, dtype.name.lower())


def shape_from(given: Iterable[Size] | None, what: str) -> ir.Shape | None:
    """Return a shape of numbers and names, or raise a BuildError. None is one of which not even the rank is known."""
    if given is None:
        return None
    if isinstance(given, str | int) or not isinstance(given, Iterable):
        raise BuildError(f'the shape of {what} is {given!r}: write a list of sizes, such as ["batch", 784].')
    sizes: list[int | str | None] = []
    for size in given:
        if isinstance(size, np.integer):
            size = int(size)
        if isinstance(size, bool) or not (size is None or isinstance(size, int | str)):
            raise BuildError(f"the shape of {what} has a size {size!r}: a size is a number, a name, or None.")
        if isinstance(size, int) and size < 0:
            raise BuildError(f'the shape of {what} has a size {size}: give it a name, such as "batch", if it is open.')
        if size == "":
            raise BuildError(f"the shape of {what} has a size with an empty name.")
        sizes.append(size)
    return ir.Shape(sizes)


@dataclass(frozen=True)
class ValueType:
    """The type of an input or an output. onnx-ir has no type for one that holds maps: `proto` tells that."""

    type: ir.TypeProtocol | None
    shape: ir.Shape | None
    proto: onnx.TypeProto | None = None

    def to_proto(self) -> onnx.TypeProto:
        """Return the type as ONNX writes it."""
        if self.proto is not None:
            return self.proto
        found = onnx.TypeProto() if self.type is None else ir.serde.serialize_type(self.type)
        if self.shape is not None:
            inner = found
            while (kind := inner.WhichOneof("value")) in ("sequence_type", "optional_type"):
                inner = getattr(inner, kind).elem_type
            ir.serde.serialize_shape_into(inner, self.shape)
        return found


def tensor(dtype: Dtype, shape: Iterable[Size] | None = None) -> ValueType:
    """Return the type of a tensor, for `types` of `build.model`."""
    return ValueType(ir.TensorType(data_type(dtype)), shape_from(shape, "a tensor"))


def map_of(key: Dtype, value: Dtype) -> ValueType:
    """Return the type of a map from keys to tensors without axes, as classical models give them."""
    proto = onnx.TypeProto()
    proto.map_type.key_type = int(data_type(key))
    proto.map_type.value_type.tensor_type.elem_type = int(data_type(value))
    return ValueType(None, None, proto)


UNKNOWN = ValueType(None, None)
"""The type of a value of which the file tells nothing."""


def sequence(dtype: Dtype | ValueType, shape: Iterable[Size] | None = None) -> ValueType:
    """Return the type of a sequence of tensors, or of what `dtype` describes, for `build.input`."""
    if isinstance(dtype, ValueType):
        if dtype.type is not None:
            return ValueType(ir.SequenceType(dtype.type), dtype.shape)
        proto = onnx.TypeProto()
        proto.sequence_type.elem_type.CopyFrom(dtype.to_proto())
        return ValueType(None, None, proto)
    return ValueType(ir.SequenceType(ir.TensorType(data_type(dtype))), shape_from(shape, "a sequence"))


def optional(inner: Dtype | ValueType, shape: Iterable[Size] | None = None) -> ValueType:
    """Return the type of a tensor or a sequence that may be missing, for `build.input`."""
    if isinstance(inner, ValueType):
        if inner.type is None:
            raise BuildError("an optional of maps is no type of ONNX.")
        return ValueType(ir.OptionalType(inner.type), inner.shape)
    return ValueType(ir.OptionalType(ir.TensorType(data_type(inner))), shape_from(shape, "an optional"))


def type_text(value: ir.Value) -> str:
    """Write the type of a value for a message: `float32 (batch, 784)`."""
    return str(type_of(value))
