"""Check that the file has an IR version that we can read."""

from __future__ import annotations

import onnx

from onnxlift.errors import LoadError
from onnxlift.ir.reading.draft import Draft
from onnxlift.stages import step

OLDEST_IR_VERSION = 3


@step("versions", optional=False)
def run(draft: Draft) -> int:
    """Refuse an IR version that the installed onnx does not know."""
    version = draft.proto.ir_version
    if not OLDEST_IR_VERSION <= version <= onnx.IR_VERSION:
        age = "newer" if version > onnx.IR_VERSION else "older"
        raise LoadError(
            f"the model has ONNX IR version {version}, {age} than onnxlift reads: the installed onnx "
            f"{onnx.__version__} knows versions {OLDEST_IR_VERSION} to {onnx.IR_VERSION}. "
            + ("Update the onnx package." if age == "newer" else "Convert it with a newer onnx first.")
        )
    return 0
