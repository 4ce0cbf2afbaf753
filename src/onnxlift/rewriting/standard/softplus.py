"""Write a softplus with a threshold that is spelled out as Softplus.

    Where(Greater(x, 20), x, Softplus(x))   ->   Softplus(x)

PyTorch's function gives x itself above its threshold, and beyond 20 a float32 has no digits left for the difference.
The idiom `softplus` says what counts as one. ONNX's operator has no factor and no other threshold: those stay.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.rewriting.idioms.activations import softplus
from onnxlift.stages import step

from .parts.spelling import fuse


@step("standard-softplus")
def run(model: ir.Model) -> int:
    """Write softplus functions as Softplus; return how many."""
    return fuse(model, softplus.run, {})
