"""A quantised graph becomes the graph of floats that it stands for.

    DequantizeLinear(W, s, z), of constants           ->   a weight of floats; also of rows that are gathered from one
    QLinearConv, QLinearMatMul, QGemm                 ->   Conv, MatMul, Gemm, and roundings around them
    products of integers with a range of their own    ->   MatMul, Conv, LSTM
    QuantizeLinear ... DequantizeLinear               ->   nothing, or the activation that it was (roundings.py)

Not sound: this is no rewriting that keeps numbers. It undoes the rounding of values, and cannot undo that of weights.
Only what somebody asks for is dequantised, and the report says how much noise the weights have kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.inference.infer import infer
from onnxlift.rewriting.bodies.body import MICROSOFT
from onnxlift.rewriting.idioms.quantised import dynamic_conv
from onnxlift.rewriting.idioms.quantised.quantized_layers import dynamic_layers
from onnxlift.rewriting.simplifying import common_subexpressions

from .roundings import drop_roundings
from .weights import KEY, Noise, Weights


def dequantise(model: ir.Model, *, dequantize: bool = False) -> int:
    """Make a graph of floats of a quantised one, if that is wanted; return how many operators became others."""
    if not dequantize:
        return 0
    weights = Weights()
    common_subexpressions.run(model)  # layers that share an input quantise it each for itself
    changes = dynamic_layers(model) + dynamic_conv.run(model)
    work = _Work(weights)
    visits = {
        ("", "QLinearConv"): work.conv,
        ("", "QLinearMatMul"): work.matmul,
        (MICROSOFT, "QGemm"): work.gemm,
        (MICROSOFT, "DynamicQuantizeLSTM"): work.lstm,
        (DOMAIN, "DynamicQuantizedLinear"): work.dynamic_linear,
        (DOMAIN, "DynamicQuantizedConv"): work.dynamic_conv,
    }

    def visit(edit: Edit, node: ir.Node) -> None:
        rewrite = visits.get((node.domain, node.op_type))
        if rewrite is not None:
            rewrite(edit, node)

    changes += sweep(model, visit)
    changes += sweep(model, {"DequantizeLinear": work.weight})
    weights.noise.dropped, weights.noise.kept = drop_roundings(model)
    model.meta[KEY] = weights.noise
    infer(model)
    return changes + weights.noise.dropped


def may_be_dequantised(node: ir.Node) -> bool:
    """Tell whether a node is quantised, and expanding it to its body leaves something to dequantise."""
    return node.domain == MICROSOFT and (node.op_type.startswith("QLinear") or node.op_type == "MatMulNBits")


def noise_of(model: ir.Model) -> Noise | None:
    """Return what a model was quantised with; None if it was not dequantised."""
    return model.meta.get(KEY)


class _Work:
    """The rewrites, each for one operator."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights

    def weight(self, edit: Edit, node: ir.Node) -> None:
        integers, scale, zero = (*node.inputs, None)[:3]
        gather, step = made_by(edit, integers, "Gather"), constant(scale)
        if gather is not None and step is not None and step.size == 1:  # rows of integers, one step for all
            table = self.weights.dequantised(edit, gather.inputs[0], scale, zero)
            if table is not None:
                inputs, attributes = [table, gather.inputs[1]], gather.attributes.values()
                edit.replace(node, "Gather", inputs, attributes, domain="", named_by=gather)
            return
        axis, block = attribute(node, "axis", 1), attribute(node, "block_size", 0)
        if axis is None or block is None:
            return
        held = self.weights.dequantised(edit, integers, scale, zero, axis=axis, block_size=block)
        if held is not None and not edit.bypass(node, held):
            edit.replace(node, "Identity", [held], domain="")

    def conv(self, edit: Edit, node: ir.Node) -> None:
        x, sx, zx, w, sw, zw, sy, zy, bias = (*node.inputs, None)[:9]
        weight = self.weights.dequantised(edit, w, sw, zw, axis=0)
        steps = self._bias_steps(edit, sx, sw)
        held = (
            self.weights.dequantised(edit, bias, steps, None, axis=0)
            if bias is not None and steps is not None
            else None
        )
        if weight is None or (bias is not None and held is None):
            return
        inputs = [_dequantised(edit, node, x, sx, zx), weight, *([] if held is None else [held])]
        _quantised(edit, node, "Conv", inputs, [*node.attributes.values()], sy, zy)

    def matmul(self, edit: Edit, node: ir.Node) -> None:
        a, sa, za, b, sb, zb, sy, zy = node.inputs
        right = self.weights.dequantised(edit, b, sb, zb, axis=1) or _dequantised(edit, node, b, sb, zb)
        _quantised(edit, node, "MatMul", [_dequantised(edit, node, a, sa, za), right], [], sy, zy)

    def gemm(self, edit: Edit, node: ir.Node) -> None:
        a, sa, za, b, sb, zb, bias, sy, zy = (*node.inputs, None, None, None)[:9]
        transposed = attribute(node, "transB", 0)
        weight = self.weights.dequantised(edit, b, sb, zb, axis=0 if transposed else 1)
        steps = self._bias_steps(edit, sa, sb)
        held = (
            self.weights.dequantised(edit, bias, steps, None, axis=-1)
            if bias is not None and steps is not None
            else None
        )
        if weight is None or sy is None or (bias is not None and held is None):
            return
        inputs = [_dequantised(edit, node, a, sa, za), weight, *([] if held is None else [held])]
        _quantised(edit, node, "Gemm", inputs, [*node.attributes.values()], sy, zy)

    def dynamic_linear(self, edit: Edit, node: ir.Node) -> None:
        x, w, s, z = node.inputs[:4]
        weight = self.weights.dequantised(edit, w, s, z, axis=1)
        if weight is not None:
            edit.replace(node, "MatMul", [x, weight], domain="")

    def dynamic_conv(self, edit: Edit, node: ir.Node) -> None:
        x, w, s, z, bias = (*node.inputs, None)[:5]
        weight = self.weights.dequantised(edit, w, s, z, axis=0)
        if weight is not None:
            attributes = [each for each in node.attributes.values() if each.name != "rounds_bias"]
            edit.replace(node, "Conv", [x, weight, *([] if bias is None else [bias])], attributes, domain="")

    def lstm(self, edit: Edit, node: ir.Node) -> None:
        """Both matrices are stored as (directions, features, gates), and an LSTM has them the other way round."""
        inputs = [*node.inputs, *[None] * 12][:12]
        w = self.weights.dequantised(edit, inputs[1], inputs[8], inputs[9], axis=0, turned=True)
        r = self.weights.dequantised(edit, inputs[2], inputs[10], inputs[11], axis=0, turned=True)
        if w is None or r is None:
            return
        node.resize_inputs(8)
        node.replace_input_with(1, w)
        node.replace_input_with(2, r)
        node.op_type, node.domain = "LSTM", ""
        edit.changes += 1

    def _bias_steps(self, edit: Edit, first: ir.Value | None, second: ir.Value | None) -> ir.Value | None:
        """Return the steps of a bias: those of the input times those of the weight."""
        if first is None or second is None or first.const_value is None or second.const_value is None:
            return None
        return edit.constant("bias_scale", first.const_value.numpy().reshape(-1)[:1] * second.const_value.numpy())


def _dequantised(
    edit: Edit, before: ir.Node, x: ir.Value | None, scale: ir.Value | None, zero: ir.Value | None
) -> ir.Value:
    assert x is not None and scale is not None
    inputs = [x, scale] if zero is None else [x, scale, zero]
    shape = shape_of(x) or ()
    return edit.insert(before, "DequantizeLinear", inputs, like=scale, shape=shape, name=f"{x.name}_numbers")


def _quantised(
    edit: Edit,
    node: ir.Node,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    attributes: Sequence[ir.Attr],
    scale: ir.Value | None,
    zero: ir.Value | None,
) -> None:
    """Put an operator on floats, and a quantisation of its result, in the place of a node."""
    assert scale is not None
    result = node.outputs[0]
    shape = shape_of(result) or ()
    numbers = edit.insert(
        node, op_type, inputs, attributes, like=scale, shape=shape, name=(node.name or op_type).removesuffix("_quant")
    )
    edit.replace(node, "QuantizeLinear", [numbers, scale, zero], domain="")
