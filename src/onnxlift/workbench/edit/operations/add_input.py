"""`add_input`: add an input to the model, or make a constant one."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from onnxlift.errors import OnnxLiftError, quote

from ..edited import EditedModel
from ..operation import Operation
from ..types import tensor_type_proto


@dataclass(frozen=True)
class AddInput(Operation):
    """Add an input to the model, behind the others: `m.add_input("mask", dtype="float32", shape=["batch", 1, 64])`.

    An initialiser of this name becomes the input, of its own type unless another is given. Without a shape, the number
    of axes is open. Returns the name."""

    name: str
    dtype: str | None = None
    shape: tuple[int | str | None, ...] | None = None

    def apply(self, model: EditedModel) -> str:
        graph, main = model.graph, model.main
        if self.name in main.inputs:
            raise OnnxLiftError(f"the model has an input {quote(self.name)} already.")
        held = main.constants.get(self.name)
        if isinstance(held, onnx.TensorProto):
            own = onnx.helper.make_tensor_type_proto(held.data_type, list(held.dims))
            given = self.dtype is not None or self.shape is not None
            type_ = tensor_type_proto(self.dtype or _name(held.data_type), self.shape) if given else own
            model.touch(main, self.name)
            graph.initializer.remove(held)
        else:
            model.check_free(main, self.name)
            if self.dtype is None:
                raise OnnxLiftError(f"say the element type of the new input {quote(self.name)}: dtype='float32'.")
            type_ = tensor_type_proto(self.dtype, self.shape)
        graph.input.append(onnx.ValueInfoProto(name=self.name, type=type_))
        return self.name


def _name(number: int) -> str:
    return str(onnx.TensorProto.DataType.Name(number)).lower()
