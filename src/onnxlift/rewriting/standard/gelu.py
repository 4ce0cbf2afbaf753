"""Write a GELU that is spelled out as Gelu, which ONNX has since opset 20.

    x * 0.5 * (1 + Erf(x / sqrt(2)))   ->   Gelu(x)

Both forms, the exact one and the approximation by Tanh. The idiom `gelu` says what counts as one.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.rewriting.idioms.activations import gelu
from onnxlift.stages import step

from .parts.spelling import Recognised, Standard, fuse


@step("standard-gelu")
def run(model: ir.Model) -> int:
    """Write GELUs as Gelu; return how many."""
    return fuse(model, gelu.run, {"Gelu": (20, _gelu)})


def _gelu(found: Recognised) -> Standard:
    return Standard("Gelu", found.node.inputs, {"approximate": found.option("approximate")})
