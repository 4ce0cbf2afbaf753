"""`load` turns a file that nobody vouches for into a graph that the rest of onnxlift can rely on.

    path, bytes, proto --reading--> proto without weights --checking--> the same --building--> onnx_ir.Model

Afterwards:

- Every name is defined once, and before it is read.
- Every node has a unique name.
- Every tensor has the size that its shape says.
- Nothing in the model refers to a file, except a FileTensor, whose file was found safe to read.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.reading.draft import Draft, Source
from onnxlift.ir.stages import BUILDING, CHECKING, READING
from onnxlift.stages import Record


def load(source: Source, record: Record | None = None, *, with_data: bool = True, faithful: bool = False) -> ir.Model:
    """Return the model in `source` as a new onnx_ir.Model, whose weights stay in their file until they are needed.

    `source` is a path, the bytes of a file, an open file, a ModelProto or an onnx_ir.Model; the last two are not
    changed. Raises LoadError if the model is broken, exceeds our limits, or names a file that must not be read. If not
    `with_data`, no external file is looked for, and tensors in such files have types and shapes, but no numbers. If
    `faithful`, the model can be written as ONNX again: inputs with default values stay inputs, and `interface_of` tells
    what the file declares.
    """
    record = record or Record()
    draft = Draft(source, with_data=with_data, faithful=faithful)
    for stage in (READING, CHECKING, BUILDING):
        record.run(stage, draft)
    assert draft.model is not None
    return draft.model
