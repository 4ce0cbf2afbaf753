"""Write a local response norm that is spelled out as LRN, which ONNX has always had.

    x / (AveragePool(x * x over channels) * alpha + k) ** beta   ->   LRN(x, size, alpha, beta, k)

The idiom `local-response-norm` says what counts as one.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.rewriting.idioms.norms import local_response_norm
from onnxlift.stages import step

from .parts.spelling import fuse


@step("standard-local-response-norm")
def run(model: ir.Model) -> int:
    """Write local response norms as LRN; return how many."""
    return fuse(model, local_response_norm.run, {})
