"""Write activations of the form `x * gate(x)` as HardSwish (since opset 14), Mish (18) and Swish (24).

    x * HardSigmoid(x, alpha=1/6, beta=1/2)   ->   HardSwish(x)
    x * Tanh(Softplus(x))                     ->   Mish(x)
    x * Sigmoid(x)                            ->   Swish(x)

The idiom `gates` says what counts as one. ONNX has no ReLU6: it stays a Clip.
Swish is written at opset 24 only: ONNX Runtime (1.31) takes it there, but not in models of a newer opset.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.rewriting.idioms.activations import gates
from onnxlift.stages import step

from .parts.spelling import Recognised, Standard, fuse


@step("standard-gates")
def run(model: ir.Model) -> int:
    """Write gated activations as operators; return how many."""
    return fuse(model, gates.run, {"HardSwish": (14, _same), "Mish": (18, _same), "SiLU": (24, _swish)})


def _same(found: Recognised) -> Standard:
    return Standard(found.node.op_type, found.node.inputs, {})


def _swish(found: Recognised) -> Standard | None:
    return Standard("Swish", found.node.inputs, {}) if found.opset == 24 else None
