"""Note which initialisers are called by their key in the state dict (ir/origin/)."""

from __future__ import annotations

from onnxlift.ir.origin.state_keys import mark_keys
from onnxlift.ir.reading.draft import Draft
from onnxlift.stages import step


@step("origins", optional=False, after={"graph": "it marks the initialisers of the built graph"})
def run(draft: Draft) -> int:
    """Mark such initialisers."""
    assert draft.model is not None
    mark_keys(draft.model)
    return 0
