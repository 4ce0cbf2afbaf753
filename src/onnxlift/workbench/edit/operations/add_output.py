"""`add_output`: make a value an output of the model."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from onnxlift.errors import OnnxLiftError, quote

from ..addresses import find_value
from ..edited import EditedModel
from ..operation import Operation
from ..types import tensor_type_proto


@dataclass(frozen=True)
class AddOutput(Operation):
    """Make a value of the main graph an output as well, behind the others. Inference finds its type.

    Where it cannot, as behind an operator without a schema, `dtype` and `shape` say it. Returns the name."""

    value: str
    dtype: str | None = None
    shape: tuple[int | str | None, ...] | None = None

    def apply(self, model: EditedModel) -> str:
        body, name = find_value(model, self.value)
        if body.parent is not None or body.is_function:
            raise OnnxLiftError(
                f"value {quote(name)} is in {body.title}, where it may be computed never or many times: it cannot be "
                "an output of the model."
            )
        if name in body.outputs:
            raise OnnxLiftError(f"the model has an output {quote(name)} already.")
        output = onnx.ValueInfoProto(name=name)
        described = next((each for each in model.graph.value_info if each.name == name), None)
        if self.dtype is not None:
            output.type.CopyFrom(tensor_type_proto(self.dtype, self.shape))
        elif described is not None:
            output.CopyFrom(described)
        model.graph.output.append(output)
        model.changed.add(name)
        return name
