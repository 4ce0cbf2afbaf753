"""`set_opset`: bring the model to another opset."""

from __future__ import annotations

from dataclasses import dataclass

from onnxlift.errors import InvalidModelError
from onnxlift.ir.reading.structure import structure_of

from ..edited import EditedModel
from ..operation import Operation


@dataclass(frozen=True)
class SetOpset(Operation):
    """Bring the model to another opset, computing the same, as `onnxlift opset` does. The draft must be valid."""

    version: int
    domain: str = ""

    def apply(self, model: EditedModel) -> None:
        from ...opset import opset
        from ..building import build

        built = build(model)
        if built.model is None or built.problems:
            raise InvalidModelError(built.problems)
        report = opset(built.model, domains={self.domain: self.version}, verify=False)
        proto, _ = structure_of(report.model, model.store)
        model.proto.CopyFrom(proto)
