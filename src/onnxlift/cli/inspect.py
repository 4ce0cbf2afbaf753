"""`onnxlift inspect` shows what is in a model, and whether it can be lifted."""

from __future__ import annotations

from .options import Json, Model
from .outcome import Outcome


def inspect(model: Model, json: Json = False) -> None:
    """Show what is in a model: inputs, outputs, opsets, size, operators, and which of these cannot be lifted.

    Example: onnxlift inspect resnet50.onnx
    """
    from onnxlift.inspection import inspect as look

    inspection = look(model)
    Outcome(True, inspection.to_dict(), str(inspection)).show("inspect", str(model), json=json)
