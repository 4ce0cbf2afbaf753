"""Fix sizes that a model leaves open: shapes of inputs, and named dimensions wherever they are declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx
import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.interface import INTERFACE, interface_of
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import shape_text


def fix_sizes(model: ir.Model, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int]) -> int:
    """Give inputs the `shapes` by name, and named dimensions the sizes `dims`; return the number of sizes fixed.

    A shape of an input also fixes the named dimensions that it has there. Outputs are declared accordingly. What is
    known to be another size is an error."""
    fixed = dict(dims)
    by_name = {value.name or "": value for value in model.graph.inputs}
    for name, shape in shapes.items():
        if name not in by_name:
            known = ", ".join(by_name) or "none"
            raise OnnxLiftError(f"the model has no input named {quote(name)}; its inputs are {known}.")
        _learn(name, by_name[name], tuple(shape), fixed)
    declared = {str(size) for value in by_name.values() for size in shape_of(value) or () if isinstance(size, str)}
    unknown = sorted(dims.keys() - declared)
    if unknown:
        told = f"they are {', '.join(sorted(declared))}" if declared else "they have none: give shapes (--shape)"
        raise OnnxLiftError(f"no input has a dimension named {', '.join(unknown)}; {told}.")
    if not fixed and not shapes:
        return 0
    changes = 0
    for name, value in by_name.items():
        sizes = shape_of(value) if name not in shapes else tuple(shapes[name])
        if sizes is None:
            continue
        new = [fixed.get(size, size) if isinstance(size, str) else size for size in sizes]
        changes += sum(isinstance(size, int) for size in new) - _known(value)
        value.shape = ir.Shape(new)
    _declare(model, fixed)
    return changes


def _known(value: ir.Value) -> int:
    return sum(isinstance(size, int) for size in shape_of(value) or ())


def _learn(name: str, value: ir.Value, shape: tuple[int, ...], fixed: dict[str, int]) -> None:
    """Note the sizes of named dimensions that the shape of an input gives."""
    declared = shape_of(value)
    if declared is None:
        return
    does_fit = len(declared) == len(shape) and all(
        size == wanted for size, wanted in zip(declared, shape, strict=False) if isinstance(size, int)
    )
    if not does_fit:
        raise OnnxLiftError(f"input {quote(name)} is declared as {shape_text(declared)}, which {shape} does not fit.")
    for size, wanted in zip(declared, shape, strict=True):
        if isinstance(size, str) and fixed.setdefault(size, wanted) != wanted:
            raise OnnxLiftError(f"dimension {quote(size)} cannot be both {fixed[size]} and {wanted}.")


def _declare(model: ir.Model, fixed: Mapping[str, int]) -> None:
    """Let the interface that is written say the new sizes."""
    interface = interface_of(model)
    shapes = {value.name: value.shape for value in model.graph.inputs}
    types = {name: _with_sizes(declared, fixed) for name, declared in interface.types.items()}
    for name, declared in types.items():
        shape = shapes.get(name)
        if declared.HasField("tensor_type") and shape is not None:
            declared.tensor_type.ClearField("shape")
            ir.serde.serialize_shape_into(declared, shape)
    told = {name: _with_sizes(declared, fixed) for name, declared in interface.told.items()}
    model.meta[INTERFACE] = replace(interface, types=types, told=told)


def _with_sizes(declared: onnx.TypeProto, fixed: Mapping[str, int]) -> onnx.TypeProto:
    copy = onnx.TypeProto()
    copy.CopyFrom(declared)
    for size in copy.tensor_type.shape.dim if copy.HasField("tensor_type") else ():
        if size.dim_param in fixed:
            size.dim_value = fixed[size.dim_param]
    return copy
