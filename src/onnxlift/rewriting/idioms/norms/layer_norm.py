"""Layer normalisation, spelled out as exporters did before opset 17, is one layer.

    d = x - ReduceMean(x)
    d / Sqrt(ReduceMean(d ** 2) + epsilon)   ->   LayerNorm(x)
    LayerNorm(x) * weight + bias             ->   LayerNorm(x, weight, bias)
    LayerNormalization(x, ones, zeros)       ->   LayerNorm(x)
    LayerNormalization(x, weight, zeros)     ->   LayerNorm(x, weight)

Both means are taken over the same last axes and keep these axes. The square may be a Pow or a product, the quotient may
be a product with the reciprocal. weight and bias are constants of exactly the normalised shape. A weight without a bias
is taken; a bias without a weight stays an Add. Casts of a half-precision x to float32 and back are dropped, too.

Not with another order of the operations (epsilon outside the root is another function), and not if another node reads d
or a value in between.

The last two rules are for layers without a weight or without a bias: ONNX's operator must have a weight, so exporters
make one. They apply if the ones and zeros have a name that exporters generate; the zeros may be missing where there are
ones. Otherwise they may be a layer's own weight, which is all ones before training.
"""

from __future__ import annotations

from functools import partial

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_filler, is_private, made_by
from onnxlift.ir.editing.near_misses import near_miss
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import rank
from onnxlift.rewriting.idioms.parts.statistics import (
    norm_attributes,
    reduced_axis,
    scaled_by_root_mean_square,
    take_bias,
    take_casts,
    take_weight,
)
from onnxlift.stages import step


@step("layer-norm")
def run(model: ir.Model) -> int:
    """Recognise layer normalisation; return how many rewrites that took."""
    return sweep(
        model,
        {
            "LayerNormalization": _without_weight,
            ("Div", "Mul"): _spelled_out,
            "Add": partial(take_bias, op_type="LayerNorm"),
            "Cast": partial(take_casts, op_type="LayerNorm"),
        },
    )


def _spelled_out(edit: Edit, node: ir.Node) -> None:
    scaled = scaled_by_root_mean_square(edit, node)
    if scaled is None:
        take_weight(edit, node, "LayerNorm")
        return
    centred = made_by(edit, scaled.x, "Sub")
    if centred is None:
        return
    if not is_private(edit, scaled.x, scaled.readers):
        near_miss(node, "others read the difference from the mean")
        return
    x, average = centred.inputs
    mean = made_by(edit, average, "ReduceMean")
    if x is None or mean is None or mean.inputs[0] is not x or not is_private(edit, average):
        near_miss(node, "what is subtracted is not the mean of the same value, or others read it")
        return
    if reduced_axis(edit, average) != scaled.axis:
        near_miss(node, "the mean and the variance are not taken over the same last axes")
        return
    edit.replace(node, "LayerNorm", [x], norm_attributes(scaled), domain=DOMAIN)
    drop_unused(edit, [*scaled.nodes, centred, mean])


def _without_weight(edit: Edit, node: ir.Node) -> None:
    x, weight, bias = (*node.inputs, None)[:3]
    axes, axis, epsilon = rank(x), attribute(node, "axis", -1), attribute(node, "epsilon", 1e-5)
    if bias is not None and not is_filler(bias, 0):
        return
    if weight is None or axes is None or axis is None or epsilon is None or len(node.outputs) != 1:
        return
    is_plain = is_filler(weight, 1)
    if attribute(node, "stash_type", 1) == 1 and (is_plain or bias is not None):
        options = [ir.AttrInt64("axis", axis % axes - axes), ir.AttrFloat32("epsilon", epsilon)]
        edit.replace(node, "LayerNorm", [x] if is_plain else [x, weight], options, domain=DOMAIN)
