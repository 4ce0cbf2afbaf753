"""Find the border of a module: its parameters, and the operands that they are inside.

Tensors cross the border as they are. Values that are known now need not cross at all. Sizes are handed down one by one,
each only once, even if it is in several lists. A size is not handed down if a tensor that is handed down has a
dimension of that name: the size is read there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxlift.ir.graph.shapes import elements_of
from onnxlift.ir.graph.types import NUMBERS, Dim, type_of
from onnxlift.lifting.code.expr import Ref, bare, variable
from onnxlift.lifting.modules.statements.size_sources import read_size
from onnxlift.lifting.ops.operand import Constant, Dims, Operand, Scalar, Tensor, size_of


@dataclass
class Border:
    """The parameters of a module. `inside` has the operands of its values inside the module. `sizes` has the caller's
    operands for parameters that are single sizes."""

    parameters: dict[ir.Value, Operand] = field(default_factory=dict)
    inside: dict[ir.Value, Operand] = field(default_factory=dict)
    sizes: dict[ir.Value, Operand] = field(default_factory=dict)


def hand_down(operands: Mapping[ir.Value, Operand]) -> Border:
    """Return the border of a module that takes these values. `operands` are the caller's."""
    border = Border()
    known = _read_off(operands)

    def size(operand: Scalar, dim: Dim | None, value: ir.Value) -> Scalar:
        if operand.number is not None:
            return operand
        if (dim, operand.type.dtype) in known:  # but not a size that was cast, or the truth of a comparison
            return known[dim, operand.type.dtype]
        found = (read_size(bare(operand)), variable(operand), operand)
        same = next(each for each in found if each is not None)
        if (same, operand.type.dtype) not in known:
            known[same, operand.type.dtype] = border.parameters[value] = _handed_scalar(value, operand)
            border.sizes[value] = operand
        return known[same, operand.type.dtype]

    for value, operand in operands.items():
        dims = elements_of(value)
        match operand:
            case Scalar():
                border.inside[value] = size(operand, dims[0] if dims else None, value)
            case Dims() if operand.elements is not None:
                pairs = zip(operand.elements, dims or [None] * len(operand.elements), strict=True)
                border.inside[value] = Dims([size(element, dim, _size(element, dim)) for element, dim in pairs])
            case _:
                border.inside[value] = border.parameters[value] = handed_down(value, operand)
    return border


def _read_off(operands: Mapping[ir.Value, Operand]) -> dict[object, Scalar]:
    """Return the sizes that tensors among the operands have, by name and type."""
    sizes: dict[object, Scalar] = {}
    for value, operand in operands.items():
        if isinstance(operand, Tensor) and operand.type.kind == "tensor":
            for axis, dim in enumerate(operand.type.shape or ()):
                if isinstance(dim, str):
                    sizes.setdefault((dim, ir.DataType.INT64), size_of(Tensor(Ref(value), operand.type), axis))
    return sizes


def is_fixed(operand: Operand) -> bool:
    """Tell whether an operand is known now, so that it need not be passed at run time."""
    match operand:
        case Constant():
            return True
        case Dims():
            return operand.static is not None
        case Scalar():
            return operand.number is not None
    return False


def _size(element: Scalar, dim: Dim | None) -> ir.Value:
    """Make a value that stands for one element of a list of sizes."""
    value = ir.Value(type=ir.TensorType(element.type.dtype or ir.DataType.INT64), shape=ir.Shape(()))
    if dim is not None:
        value.meta["dims"] = dim
    return value


def _handed_scalar(value: ir.Value, operand: Scalar) -> Scalar:
    return Scalar(Ref(value), operand.type.dtype or ir.DataType.INT64, operand.nonnegative)


def handed_down(value: ir.Value, operand: Operand) -> Operand:
    """Return the operand for `operand` on the other side of a call."""
    match operand:
        case _ if is_fixed(operand):
            return operand
        case Scalar():
            return _handed_scalar(value, operand)
        case Dims() if operand.elements is not None:
            elements = [
                e if e.number is not None else Scalar(Ref(value)[i], e.type.dtype or ir.DataType.INT64, e.nonnegative)
                for i, e in enumerate(operand.elements)
            ]
            return Dims(elements)
        case Dims():
            return Dims(None, Ref(value), operand.length, operand.type.dtype)
    return Tensor(Ref(value), operand.type)


def parameter_order(value: ir.Value) -> int:
    """Return the number by which parameters are sorted: floats, which a module works on, come first, then indices, then
    masks."""
    if value.dtype == ir.DataType.BOOL or _is_mask(value):
        return 2
    return 0 if value.dtype in NUMBERS else 1


_MOVES = frozenset({"Cast", "Expand", "Reshape", "Squeeze", "Unsqueeze"})


def _is_mask(value: ir.Value) -> bool:
    """Tell whether a value holds only two numbers, one where a condition holds and one where it does not."""
    node = value.producer()
    for _ in range(3):
        if node is not None and node.op_type in _MOVES and node.inputs[0] is not None:
            node = node.inputs[0].producer()
    if node is None or node.op_type != "Where":
        return False
    return all(choice is not None and type_of(choice).size == 1 for choice in node.inputs[1:])
