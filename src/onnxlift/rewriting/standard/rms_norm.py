"""Write a root-mean-square norm that is spelled out as RMSNormalization, which ONNX has since opset 23.

    x / Sqrt(ReduceMean(x ** 2) + epsilon) * weight   ->   RMSNormalization(x, weight)

The idiom `rms-norm` says what counts as one. A spelled-out layer norm is one without its centring, so those are
recognised first, and put back afterwards. Weights and types are as for `standard-layer-norm`.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.rewriting.idioms.norms import layer_norm, rms_norm
from onnxlift.stages import Step, step

from .parts.norms import normalised
from .parts.spelling import Recognised, Standard, fuse


@step(
    "standard-rms-norm",
    after={"standard-layer-norm": "what is left of a layer norm without its centring looks like this"},
)
def run(model: ir.Model) -> int:
    """Write root-mean-square norms as RMSNormalization; return how many."""
    return fuse(model, Step("rms-norm", _both), {"RMSNorm": (23, _rms_norm)})


def _both(model: ir.Model) -> int:
    return layer_norm.run(model) + rms_norm.run(model)


def _rms_norm(found: Recognised) -> Standard | None:
    return normalised(found, "RMSNormalization")
