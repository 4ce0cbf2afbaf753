"""Decide what each initialiser is, who named it, and who exported the model (ir/origin/)."""

from __future__ import annotations

from onnxlift.ir.origin.tensors import classify
from onnxlift.ir.reading.draft import Draft
from onnxlift.stages import step


@step("origins", optional=False, after={"graph": "it looks at the initialisers of the built graph"})
def run(draft: Draft) -> int:
    """Classify every initialiser, once."""
    assert draft.model is not None
    classify(draft.model)
    return 0
