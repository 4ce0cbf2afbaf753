"""Write Softsign and Shrink, spelled out by exporters, as the operators that ONNX has always had.

    x / (|x| + 1)           ->   Softsign(x)
    Where(|x| <= l, 0, x)   ->   Shrink(x, lambd=l, bias=0)

The idiom `spelled-activations` says what counts as one. Before opset 9 there is no Shrink.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.rewriting.idioms.activations import spelled_activations
from onnxlift.stages import step

from .parts.spelling import fuse


@step("standard-activations")
def run(model: ir.Model) -> int:
    """Write spelled-out activations as operators; return how many."""
    return fuse(model, spelled_activations.run, {}) if model.opset_imports.get("", 1) >= 9 else 0
