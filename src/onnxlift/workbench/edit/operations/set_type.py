"""`set_type`: declare an input of the model otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote

from ...values import suggestion
from ..arrays import data_type, type_name
from ..edited import EditedModel
from ..operation import Operation
from ..types import checked_sizes, tensor_type_proto


@dataclass(frozen=True)
class SetType(Operation):
    """Declare another shape or element type of an input: `m.set_type("x", shape=["batch", 3, 224, 224])`.

    What is not given stays. The types of all else follow from the inputs."""

    input: str
    dtype: str | None = None
    shape: tuple[int | str | None, ...] | None = None

    def apply(self, model: EditedModel) -> None:
        declared = next((each for each in model.graph.input if each.name == self.input), None)
        if declared is None:
            known = [each.name for each in model.graph.input]
            raise OnnxLiftError(f"the model has no input {quote(self.input)}{suggestion(self.input, known)}.")
        if self.dtype is None and self.shape is None:
            raise OnnxLiftError("set_type: say what changes: dtype, shape, or both.")
        if declared.type.WhichOneof("value") not in (None, "tensor_type"):
            raise OnnxLiftError(f"input {quote(self.input)} is no tensor, so that its type cannot be set.")
        if self.input in model.main.constants:
            raise OnnxLiftError(f"input {quote(self.input)} has a default value, whose type it has (set_constant).")
        model.touch(model.main, self.input)
        if self.dtype is not None and data_type(self.dtype) is None:
            tensor_type_proto(self.dtype, None)
        element = declared.type.tensor_type.elem_type
        dtype = self.dtype or (type_name(ir.DataType(element)) if element else "")
        if self.shape is not None:
            declared.type.CopyFrom(tensor_type_proto(dtype, tuple(checked_sizes(self.shape))))
        else:
            declared.type.tensor_type.elem_type = int(data_type(dtype) or 0)
