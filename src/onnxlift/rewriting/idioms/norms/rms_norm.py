"""Root-mean-square normalisation, as Llama and T5 write it, is one layer.

    x / Sqrt(ReduceMean(x ** 2) + epsilon)   ->   RMSNorm(x)
    RMSNorm(x) * weight                      ->   RMSNorm(x, weight)

The variants of `layer-norm` apply here, too. That idiom runs first, so that no x minus its mean is left for this one.
The weight is a constant of exactly the normalised shape; anything else (`1 + weight`) stays a product. In half
precision the model rounds once before it applies the weight, PyTorch once after.
"""

from __future__ import annotations

from functools import partial

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused
from onnxlift.rewriting.idioms.parts.statistics import (
    norm_attributes,
    scaled_by_root_mean_square,
    take_casts,
    take_weight,
)
from onnxlift.stages import step


@step("rms-norm", after={"layer-norm": "what is left of a layer norm without its centring looks like this"})
def run(model: ir.Model) -> int:
    """Recognise root-mean-square normalisation; return how many rewrites that took."""
    return sweep(model, {("Div", "Mul"): _spelled_out, "Cast": partial(take_casts, op_type="RMSNorm")})


def _spelled_out(edit: Edit, node: ir.Node) -> None:
    scaled = scaled_by_root_mean_square(edit, node)
    if scaled is not None:
        edit.replace(node, "RMSNorm", [scaled.x], norm_attributes(scaled), domain=DOMAIN)
        drop_unused(edit, scaled.nodes)
    else:
        take_weight(edit, node, "RMSNorm")
