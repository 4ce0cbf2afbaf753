"""The inputs of a model, as samples must have them."""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.errors import quote
from onnxlift.ir.graph.interface import interface_of
from onnxlift.ir.graph.types import type_of

from .samples import SampleError, Slot


def slots_of(model: ir.Model) -> list[Slot]:
    """Return the inputs of a model. Raises a SampleError if one of them is no tensor of numbers."""
    slots: list[Slot] = []
    defaults = interface_of(model).defaults
    for value in model.graph.inputs:
        kind = type_of(value)
        name = value.name or ""
        if kind.kind != "tensor" or kind.dtype is None or kind.dtype == ir.DataType.STRING:
            raise SampleError(f"input {quote(name)} is {kind}: only models whose inputs are numbers can be quantised.")
        shape = None if kind.shape is None else tuple(size if isinstance(size, int) else None for size in kind.shape)
        slots.append(Slot(name, kind.dtype.numpy().name, shape, name not in defaults))
    return slots
