"""`remove_output`: take an output from the model."""

from __future__ import annotations

from dataclasses import dataclass

from onnxlift.errors import OnnxLiftError, quote

from ...values import suggestion
from ..edited import EditedModel
from ..operation import Operation


@dataclass(frozen=True)
class RemoveOutput(Operation):
    """Take an output from the model. What computes it stays; `remove_unused` drops it if nobody else reads it."""

    name: str

    def apply(self, model: EditedModel) -> None:
        outputs = model.graph.output
        declared = next((each for each in outputs if each.name == self.name), None)
        if declared is None:
            raise OnnxLiftError(
                f"the model has no output {quote(self.name)}{suggestion(self.name, model.main.outputs)}."
            )
        if len(outputs) == 1:
            raise OnnxLiftError(f"{quote(self.name)} is the only output: add another before you remove it.")
        outputs.remove(declared)
        model.changed.discard(self.name)
