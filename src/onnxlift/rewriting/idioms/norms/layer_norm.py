"""Layer normalisation, spelled out as exporters did before opset 17, is one layer.

    d = x - ReduceMean(x)
    d / Sqrt(ReduceMean(d ** 2) + epsilon)   ->   LayerNorm(x)
    LayerNorm(x) * weight + bias             ->   LayerNorm(x, weight, bias)
    x * z + (bias - mean * z)                ->   LayerNorm(x, weight, bias),   as TensorFlow writes it, where
                                                  mean = ReduceMean(x), z = weight / Sqrt(variance + epsilon)
    LayerNormalization(x, ones, zeros)       ->   LayerNorm(x)
    LayerNormalization(x, weight, zeros)     ->   LayerNorm(x, weight)

Both means are taken over the same last axes and keep these axes; one over the last of three axes may be a
GlobalAveragePool. The square may be a Pow or a product, the quotient may
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
from onnxlift.ir.editing.match import DOMAIN, both_orders, drop_unused, is_filler, is_private, made_by
from onnxlift.ir.editing.near_misses import near_miss
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.rewriting.idioms.parts.statistics import (
    Scaled,
    mean_before,
    norm_attributes,
    reduced_axis,
    scaled_by_root_mean_square,
    take_bias,
    take_casts,
    take_weight,
    times_inverse_root,
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
            "Add": _added,
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
    mean = mean_before(edit, average)
    if x is None or mean is None or mean.inputs[0] is not x or not is_private(edit, average):
        near_miss(node, "what is subtracted is not the mean of the same value, or others read it")
        return
    if reduced_axis(edit, average) != scaled.axis:
        near_miss(node, "the mean and the variance are not taken over the same last axes")
        return
    edit.replace(node, "LayerNorm", [x], norm_attributes(scaled), domain=DOMAIN)
    drop_unused(edit, [*scaled.nodes, centred, mean])


def _added(edit: Edit, node: ir.Node) -> None:
    if not take_bias(edit, node, "LayerNorm"):
        for scaled, shift in both_orders(node):
            _shifted(edit, node, scaled, shift)


def _shifted(edit: Edit, node: ir.Node, scaled: ir.Value, shift: ir.Value) -> None:
    product, moved = made_by(edit, scaled, "Mul"), made_by(edit, shift, "Sub")
    offset = made_by(edit, moved.inputs[1], "Mul") if moved is not None else None
    if product is None or moved is None or offset is None:
        return
    bias = moved.inputs[0]
    for x, factor in both_orders(product):
        for average, again in both_orders(offset):
            mean = mean_before(edit, average)
            if again is not factor or mean is None or mean.inputs[0] is not x:
                continue
            found = _times_weight(edit, x, average, factor)
            if found is None or constant(bias) is None or not is_private(edit, factor, 2):
                continue
            variance, weight, centred, times = found
            axis, shape = variance.axis, shape_of(x)
            if shape is None or not shape_of(weight) == shape_of(bias) == shape[axis:] != ():
                near_miss(node, "the weight or bias is not a constant with one number for each normalised element")
                continue
            privates = ((scaled, 1), (shift, 1), (moved.inputs[1], 1), (average, 2), (variance.x, variance.readers - 1))
            if reduced_axis(edit, average) != axis or not all(is_private(edit, *each) for each in privates):
                near_miss(node, "others read the mean or the variance, or these are taken over different axes")
                continue
            edit.replace(node, "LayerNorm", [x, weight, bias], norm_attributes(variance), domain=DOMAIN)
            drop_unused(edit, [product, moved, offset, times, *variance.nodes, centred, mean])
            return


def _times_weight(
    edit: Edit, x: ir.Value, average: ir.Value, factor: ir.Value
) -> tuple[Scaled, ir.Value, ir.Node, ir.Node] | None:
    """Return what `factor` is made of, if it is a weight by the root of the variance of x: the pattern of the root, the
    weight, the difference from the mean, and the product."""
    times = made_by(edit, factor, "Mul")
    centred = next((user for user, _ in average.uses() if is_standard(user, "Sub") and user.inputs[0] is x), None)
    if times is None or centred is None:
        return None
    for inverse, weight in both_orders(times):
        variance = times_inverse_root(edit, centred.outputs[0], inverse) if constant(weight) is not None else None
        if variance is not None:
            return variance, weight, centred, times
    return None


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
