"""Check every node of the graph against the rules that can be told without types (see ir/checking/rules/)."""

from __future__ import annotations

from onnxlift.ir.checking.gate import check_nodes
from onnxlift.ir.reading.draft import Draft
from onnxlift.stages import step


@step("node-rules", optional=False, after={"order": "inference, which adds to the findings, needs sorted nodes"})
def run(draft: Draft) -> int:
    """Refuse a model with nodes that break a rule, and say all of them."""
    assert draft.model is not None
    check_nodes(draft.model)
    return 0
