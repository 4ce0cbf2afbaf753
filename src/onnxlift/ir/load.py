"""`load`: from a file that a stranger wrote to a graph that the rest of onnxlift can rely on.

    path, bytes, proto --reading--> proto without weights --checking--> the same --building--> onnx_ir.Model

What holds afterwards: every name is defined once, and before it is read; every node has a unique name; every tensor has
the size that its shape says; nothing in the model refers to a file except through a FileTensor, whose file was judged.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.reading.draft import Draft, Source
from onnxlift.ir.stages import BUILDING, CHECKING, READING
from onnxlift.stages import Record


def load(source: Source, record: Record | None = None) -> ir.Model:
    """Return a model of our own with its weights still where they are.

    Takes a path, the bytes of a file, an open file, a ModelProto or an onnx_ir.Model; the last two are not changed.
    Raises LoadError if the model is broken, or asks for more than a model may.
    """
    record = record or Record()
    draft = Draft(source)
    for stage in (READING, CHECKING, BUILDING):
        record.run(stage, draft)
    assert draft.model is not None
    return draft.model
