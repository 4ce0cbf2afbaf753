"""`set_constant`: give a constant other numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote

from ..addresses import ValuePlace, find_value
from ..arrays import Array, default_array
from ..bodies import value_infos
from ..constants import constant_tensor
from ..edited import EditedModel
from ..fields import Plain
from ..operation import Operation


@dataclass(frozen=True)
class SetConstant(Operation):
    """Give an initialiser, or the output of a Constant node, other numbers.

    An array may have another shape or type than before. Plain numbers and lists take over the type, and a single number
    the shape of a constant of one element."""

    name: str
    value: Plain
    inside: str | None = None

    def apply(self, model: EditedModel) -> None:
        place = find_value(model, self.name, self.inside)
        body, name = place
        before = constant_tensor(place)
        array = _as(self.value, ir.DataType(before.data_type), tuple(before.dims))
        tensor = model.tensor(before.name, array)
        tensor.doc_string = before.doc_string
        if (tensor.data_type, list(tensor.dims)) != (before.data_type, list(before.dims)):
            model.touch(body, name)
        held = body.constants.get(name)
        if isinstance(held, onnx.TensorProto):
            held.CopyFrom(tensor)
            for info in value_infos(body):
                if info.name == name:
                    info.type.CopyFrom(onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims)))
            return
        _set_node(place, tensor)


def _as(value: Any, dtype: ir.DataType, shape: tuple[int, ...]) -> Array:
    """Return the new numbers. What has no type of its own has that of the old ones."""
    if isinstance(value, Array):
        return value
    plain = default_array(value)
    if dtype == ir.DataType.STRING or plain.dtype == "string":
        array = plain
    else:
        array = Array.of(plain.numpy() if not isinstance(value, float) else value, dtype)
    is_single = array.shape == () and all(size == 1 for size in shape)
    return Array(array.dtype, shape, array.data) if is_single else array


def _set_node(place: ValuePlace, tensor: onnx.TensorProto) -> None:
    node = place.body.producers.get(place.name)
    if node is None:
        raise OnnxLiftError(f"constant {quote(place.name)} is sparse, which cannot be changed: add another one.")
    tensor.name = ""
    del node.attribute[:]
    node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR, t=tensor)
