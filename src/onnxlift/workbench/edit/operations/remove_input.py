"""`remove_input`: take an input from the model."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote

from ...values import suggestion
from ..arrays import Array, default_array
from ..edited import EditedModel
from ..fields import Plain
from ..operation import Operation


@dataclass(frozen=True)
class RemoveInput(Operation):
    """Take an input from the model. If it is read, say the `value` that it has from now on, which becomes a constant.

    An input that has a default value keeps that."""

    name: str
    value: Plain = None

    def apply(self, model: EditedModel) -> None:
        graph, main = model.graph, model.main
        declared = next((each for each in graph.input if each.name == self.name), None)
        if declared is None:
            known = [each.name for each in graph.input]
            raise OnnxLiftError(f"the model has no input {quote(self.name)}{suggestion(self.name, known)}.")
        is_read = next(main.references(self.name), None) is not None
        if self.value is not None:
            if self.name in main.constants:
                raise OnnxLiftError(f"{quote(self.name)} has a default value: change that (set_constant).")
            array = _as(self.value, declared.type.tensor_type.elem_type)
            model.touch(main, self.name)
            model.add_constant(main, self.name, array)
        elif is_read and self.name not in main.constants:
            raise OnnxLiftError(
                f"input {quote(self.name)} is read: say the value that it has from now on (value=...), or let its "
                "readers read another value (replace_value)."
            )
        graph.input.remove(declared)


def _as(value: Plain, element: int) -> Array:
    if isinstance(value, Array) or not element:
        return default_array(value)
    plain = default_array(value)
    return plain if plain.dtype == "string" else Array.of(plain.numpy(), ir.DataType(element))
