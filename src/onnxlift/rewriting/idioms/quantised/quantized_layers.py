"""A layer and the nodes that dequantise its weight are one layer, which stores the integers.

    MatMul(x, DequantizeLinear(W, s, z)), Gemm(..)   ->  QuantizedLinear(x, W, s, z)
    Conv(x, DequantizeLinear(W, s, z), b)            ->  QuantizedConv(x, W, s, z, b)
    DequantizeLinear(Gather(W, indices), s, z)       ->  QuantizedEmbedding(W, s, z, indices); Gather last as well
    Mul(Cast(MatMulInteger(q, W, q_zero, z)), Mul(q_scale, s)),  where q, q_scale, q_zero = DynamicQuantizeLinear(x)
                                                     ->  DynamicQuantizedLinear(x, W, s, z)
    Add(either linear layer, b)                      ->  the layer with its bias

W, s and z are constants: W of 8-bit integers, s of float32, with one number or one for each output; a table that is
dequantised before it is looked up may have one for each row. b is a constant with one number for each output. Nobody
else reads a value in between. An exception is the quantised x of the dynamic layer, which each layer computes again.

Not with scales along another axis or in blocks, not if `alpha`, `beta` or `transA` of a Gemm is set, and not for a
convolution over other than two axes or with pads that differ between both sides.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, both_orders, drop_unused, is_private, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.rewriting.idioms.parts.biases import is_bias
from onnxlift.rewriting.idioms.parts.quantised_weights import checked, windows
from onnxlift.stages import step

_LINEAR = ("QuantizedLinear", "DynamicQuantizedLinear")


@step("quantized-layers")
def run(model: ir.Model) -> int:
    """Make layers of products with quantised weights; return how many rewrites that took."""
    return sweep(
        model,
        {
            ("MatMul", "Gemm"): _linear,
            "Conv": _conv,
            ("Gather", "DequantizeLinear"): _embedding,
            "Mul": _dynamic_linear,
            "Add": _bias,
        },
    )


def dynamic_layers(model: ir.Model) -> int:
    """Make layers of products of integers alone; return how many."""
    return sweep(model, {"Mul": _dynamic_linear})


def _linear(edit: Edit, node: ir.Node) -> None:
    x, weight, bias = (*node.inputs, None)[:3]
    transposed = attribute(node, "transB", 0)
    plain = attribute(node, "transA", 0) == 0 and attribute(node, "alpha", 1.0) == attribute(node, "beta", 1.0) == 1.0
    stored = _stored(edit, weight, 0 if transposed else 1, 2)
    if stored is None or not plain or x is None:
        return
    if bias is not None and not is_bias(bias, _outputs(stored[0], transposed), 2):
        return
    dequantize = weight.producer() if weight is not None else None
    inputs = [x, *stored] if bias is None else [x, *stored, bias]
    edit.replace(node, "QuantizedLinear", inputs, _transposed(transposed), domain=DOMAIN)
    drop_unused(edit, [dequantize] if dequantize is not None else [])


def _conv(edit: Edit, node: ir.Node) -> None:
    x, weight, bias = (*node.inputs, None)[:3]
    stored, attributes = _stored(edit, weight, 0, 3, 4), windows(node)
    if stored is None or x is None or attributes is None:
        return
    if bias is not None and not is_bias(bias, _outputs(stored[0], transposed=1), 1):
        return
    dequantize = weight.producer() if weight is not None else None
    inputs = [x, *stored] if bias is None else [x, *stored, bias]
    edit.replace(node, "QuantizedConv", inputs, attributes, domain=DOMAIN)
    drop_unused(edit, [dequantize] if dequantize is not None else [])


def _embedding(edit: Edit, node: ir.Node) -> None:
    """Recognise both orders: rows of integers that are dequantised, and rows of a dequantised table."""
    first = node.inputs[0]
    inner = made_by(edit, first, "DequantizeLinear" if node.op_type == "Gather" else "Gather")
    if inner is None or not is_private(edit, first):
        return
    gather, dequantize = (node, inner) if node.op_type == "Gather" else (inner, node)
    table, indices = inner.inputs[0], gather.inputs[1]
    if attribute(gather, "axis", 0) not in (0, -2) or not rank(indices):
        return
    # Along the rows, only a table that is dequantised as a whole has its scales in their order.
    stored = _parameters(edit, table, dequantize, 0 if gather is node else None, 2)
    if stored is not None:
        edit.replace(node, "QuantizedEmbedding", [*stored, indices], domain=DOMAIN, named_by=gather)
        drop_unused(edit, [inner])


def _dynamic_linear(edit: Edit, node: ir.Node) -> None:
    for total, factor in both_orders(node):
        cast = made_by(edit, total, "Cast", "CastLike")
        product = made_by(edit, cast.inputs[0], "MatMulInteger") if cast is not None else None
        scales = made_by(edit, factor, "Mul")
        if cast is None or product is None or scales is None:
            continue
        if not all(is_private(edit, value) for value in (total, factor, product.outputs[0])):
            continue
        numbers, weight, zero, weight_zero = (*product.inputs, None, None)[:4]
        dynamic = made_by(edit, numbers, "DynamicQuantizeLinear")
        if dynamic is None or zero is not dynamic.outputs[2]:
            continue
        for first, scale in both_orders(scales):
            stored = checked(edit, weight, scale, weight_zero, 1, 2)
            if first is dynamic.outputs[1] and stored is not None:
                inputs = [dynamic.inputs[0], *stored]
                edit.replace(node, "DynamicQuantizedLinear", inputs, domain=DOMAIN, named_by=product)
                drop_unused(edit, [cast, product, scales, dynamic])
                return


def _bias(edit: Edit, node: ir.Node) -> None:
    for value, bias in both_orders(node):
        layer = made_by(edit, value, *_LINEAR, domain=DOMAIN)
        if layer is None or len(layer.inputs) > 4 or not is_private(edit, value):
            continue
        transposed = attribute(layer, "transposed", 0)
        if is_bias(bias, _outputs(layer.inputs[1], transposed), rank(value)):
            inputs, attributes = [*layer.inputs, bias], _transposed(transposed)
            edit.replace(node, layer.op_type, inputs, attributes, domain=DOMAIN, named_by=layer)
            drop_unused(edit, [layer])
            return


def _outputs(weight: ir.Value | None, transposed: int) -> int:
    """Return the number of outputs of a layer with this constant as its weight."""
    tensor = constant(weight)
    assert tensor is not None
    return tensor.shape.numpy()[0 if transposed else 1]


def _transposed(transposed: int) -> list[ir.Attr]:
    return [ir.AttrInt64("transposed", 1)] if transposed else []


def _stored(edit: Edit, value: ir.Value | None, axis: int, *axes: int) -> list[ir.Value] | None:
    """Return integers, scale and zero point of a dequantised weight."""
    dequantize = made_by(edit, value, "DequantizeLinear")
    return None if dequantize is None else _parameters(edit, dequantize.inputs[0], dequantize, axis, *axes)


def _parameters(
    edit: Edit, integers: ir.Value | None, dequantize: ir.Node, axis: int | None, *axes: int
) -> list[ir.Value] | None:
    _, scale, zero = (*dequantize.inputs, None)[:3]
    if dequantize.attributes.keys() - {"axis"}:
        return None
    given, count = attribute(dequantize, "axis", 1), rank(integers)
    if given is None or not count or (rank(scale) and shape_of(scale) != (1,) and given % count != axis):
        return None
    return checked(edit, integers, scale, zero, axis, *axes)
