"""`set_size`: give a named dimension a number, or another name."""

from __future__ import annotations

import re
from dataclasses import dataclass

import onnx

from onnxlift.errors import OnnxLiftError, quote

from ...values import suggestion
from ..bodies import value_infos
from ..edited import EditedModel
from ..operation import Operation
from ..types import check_size

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class SetSize(Operation):
    """Give a named dimension a size or another name, in all inputs, outputs and values inside.

    `m.set_size("batch", 4)`, `m.set_size("dynamic_axes_1", "sequence")`. Sizes that are computed from it are found by
    inference. To open a size that is a number, use `set_type`."""

    name: str
    size: int | str

    def apply(self, model: EditedModel) -> None:
        check_size(self.size)
        graph = model.graph
        known = {dim.dim_param for value in (*graph.input, *graph.output) for dim in _dims(value.type) if dim.dim_param}
        if self.name not in known:
            told = suggestion(self.name, sorted(known)) if known else "; they have none with a name (use set_type)"
            raise OnnxLiftError(f"no input or output has a dimension {quote(self.name)}{told}.")
        for body in model.main.tree():
            for info in value_infos(body):
                is_output = body.parent is None and info.name in body.outputs
                if self._replace(info.type) and is_output:
                    model.changed.add(info.name)

    def _replace(self, type_: onnx.TypeProto) -> bool:
        """Replace the size in a type; tell whether a formula of it was dropped, which inference has to find again."""
        has_formula = False
        for dim in _dims(type_):
            if dim.dim_param == self.name and isinstance(self.size, int):
                dim.dim_value = self.size
            elif dim.dim_param == self.name:
                dim.dim_param = str(self.size)
            elif self.name in _WORD.findall(dim.dim_param):
                dim.ClearField("dim_param")
                has_formula = True
        return has_formula


def _dims(type_: onnx.TypeProto) -> list[onnx.TensorShapeProto.Dimension]:
    while (kind := type_.WhichOneof("value")) in {"sequence_type", "optional_type"}:
        type_ = getattr(type_, kind).elem_type
    return list(getattr(type_, kind).shape.dim) if kind in {"tensor_type", "sparse_tensor_type"} else []
