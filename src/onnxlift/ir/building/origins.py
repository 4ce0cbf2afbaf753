"""Decide what each initialiser is, who named it, and which program exported the model (see ir/origin/)."""

from __future__ import annotations

from onnxlift.ir.origin.tensors import classify
from onnxlift.ir.reading.draft import Draft
from onnxlift.stages import step


@step("origins", optional=False, after={"graph": "it looks at the initialisers of the built graph"})
def run(draft: Draft) -> int:
    """Note on every initialiser what it is; later steps read that note."""
    assert draft.model is not None
    classify(draft.model)
    return 0
