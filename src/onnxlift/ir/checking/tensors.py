"""Check every tensor: its header, where its bytes lie, and that it has as many bytes as its shape needs."""

from __future__ import annotations

from onnxlift.ir.reading.draft import Draft
from onnxlift.ir.reading.weights import detach_weights
from onnxlift.stages import step


@step(
    "tensors",
    optional=False,
    after={"expansion": "a file that asks for too much is refused before its external data is looked at"},
)
def run(draft: Draft) -> int:
    """Check every tensor, and take those in external files out of the proto."""
    detach_weights(draft.proto, draft.store, draft.folder if draft.with_data else None)
    return 0
