"""Write a layer norm that is spelled out as LayerNormalization, which ONNX has since opset 17.

    (x - mean) / Sqrt(variance + epsilon) * weight + bias   ->   LayerNormalization(x, weight, bias)

The idiom `layer-norm` says what counts as one. The operator must have a weight: without one it gets ones, if the
size is known. Not for double, of which the operator computes the statistics in float32 by default.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.rewriting.idioms.norms import layer_norm
from onnxlift.stages import step

from .parts.norms import normalised
from .parts.spelling import Recognised, Standard, fuse


@step("standard-layer-norm")
def run(model: ir.Model) -> int:
    """Write layer norms as LayerNormalization; return how many."""
    return fuse(model, layer_norm.run, {"LayerNorm": (17, _layer_norm)})


def _layer_norm(found: Recognised) -> Standard | None:
    return normalised(found, "LayerNormalization")
