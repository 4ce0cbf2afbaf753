"""Hold a type that a file declares against the one that inference finds, and take what is more exact of both."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from onnxlift.errors import quote
from onnxlift.ir.graph.interface import contradict
from onnxlift.ir.graph.types import Dim, ValueType, shape_text
from onnxlift.ir.inference.infer import is_invented_size

from .values import has_type, known_type


@dataclass(frozen=True)
class Declared:
    """A type as a file declares it."""

    proto: onnx.TypeProto

    @property
    def shape(self) -> tuple[Dim, ...] | None:
        """The sizes of a tensor: None for one without a name, or with a name that some inference has generated."""
        if not self.proto.HasField("tensor_type") or not self.proto.tensor_type.HasField("shape"):
            return None
        return tuple(_size(size) for size in self.proto.tensor_type.shape.dim)

    @property
    def dtype(self) -> ir.DataType | None:
        element = self.proto.tensor_type.elem_type if self.proto.HasField("tensor_type") else 0
        return ir.DataType(element) if element else None

    def type_of(self, found: ValueType) -> ValueType:
        """Return what inference has found of a value, and beyond that what is declared."""
        if found.kind != "tensor" or (self.proto.WhichOneof("value") or "tensor_type") != "tensor_type":
            return found
        return ValueType(found.dtype or self.dtype, _more_exact(found.shape, self.shape), found.kind)


def _size(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param if dim.dim_param and not is_invented_size(dim.dim_param) else None


def _more_exact(found: tuple[Dim, ...] | None, declared: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    if found is None or declared is None or len(found) != len(declared):
        return found if found is not None else declared
    return tuple(other if size is None else size for size, other in zip(found, declared, strict=True))


def sharpened(
    value: ir.Value, declared: onnx.TypeProto, symbols: Collection[str], notes: list[str]
) -> tuple[onnx.TypeProto, bool]:
    """Return the type to declare of a value, and whether it says more than before.

    Where what is declared and what is inferred cannot both be right, or only for some sizes of the inputs (whose names
    are `symbols`), the notes tell it."""
    old, found = Declared(declared), known_type(value)
    if (
        not has_type(value)
        or not isinstance(value.type, ir.TensorType)
        or declared.WhichOneof("value") != "tensor_type"
    ):
        return declared, False
    shape = _more_exact(found.shape, old.shape)
    new = onnx.helper.make_tensor_type_proto(int(value.type.dtype), shape)
    if declared.denotation:
        new.denotation = declared.denotation
    if new.tensor_type.HasField("shape") and old.shape is not None and len(old.shape) == len(shape or ()):
        for size, former in zip(new.tensor_type.shape.dim, declared.tensor_type.shape.dim, strict=True):
            if former.denotation:
                size.denotation = former.denotation
    if contradict(new, declared) or _differ(found.shape, old.shape, symbols):
        text = ValueType(old.dtype, old.shape)
        notes.append(f"{quote(value.name or '')} is declared as {text}, and inference finds {found}")
    is_sharper = shape is not None and shape_text(shape) != shape_text(old.shape)
    return new, is_sharper


def _differ(found: tuple[Dim, ...] | None, declared: tuple[Dim, ...] | None, symbols: Collection[str]) -> bool:
    """Tell whether a size is declared as a number or by a name of the inputs, and inference finds another name."""
    pairs = zip(found or (), declared or (), strict=False)
    return any(
        isinstance(size, str) and other != size and (isinstance(other, int) or other in symbols)
        for size, other in pairs
    )
