"""Layer normalisation, spelled out as exporters did before opset 17.

    d = x - ReduceMean(x)
    d / Sqrt(ReduceMean(d ** 2) + epsilon)   ->   LayerNorm(x)
    LayerNorm(x) * weight + bias             ->   LayerNorm(x, weight, bias)

The means go over the same last axes and keep them; the square may be a Pow or a product, the quotient a product with
the reciprocal. weight and bias are constants of exactly the normalised shape; a weight alone will do, a bias alone
stays an Add. Casts of a half-precision x to float32 and back go too. Not with another order of the operations (epsilon
outside the root is another function), and not if another node reads d or what is in between.
"""

from __future__ import annotations

import onnx_ir as ir

from ..passes.edit import Edit, sweep
from .match import DOMAIN, drop_unused, is_private, made_by
from .statistics import norm_attributes, reduced_axis, scaled_by_root_mean_square, take_bias, take_casts, take_weight


def run(model: ir.Model) -> int:
    """Recognise layer normalisation; gives how many rewrites that took."""
    return sweep(model, _visit)


def _visit(edit: Edit, node: ir.Node) -> None:
    scaled = scaled_by_root_mean_square(edit, node)
    if scaled is None:
        if not take_weight(edit, node, "LayerNorm") and not take_bias(edit, node, "LayerNorm"):
            take_casts(edit, node, "LayerNorm")
        return
    centred = made_by(edit, scaled.x, "Sub")
    if centred is None or not is_private(edit, scaled.x, scaled.readers):
        return
    x, average = centred.inputs
    mean = made_by(edit, average, "ReduceMean")
    if x is None or mean is None or mean.inputs[0] is not x or not is_private(edit, average):
        return
    if reduced_axis(edit, average) == scaled.axis:
        edit.replace(node, "LayerNorm", [x], norm_attributes(scaled), domain=DOMAIN)
        drop_unused(edit, [*scaled.nodes, centred, mean])
