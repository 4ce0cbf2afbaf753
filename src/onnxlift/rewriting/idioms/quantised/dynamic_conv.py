"""A convolution of integers whose input is quantised to its own range, anew for each input, is one layer.

    Mul(Cast(ConvInteger(q, W, q_zero, z)), step)   ->  DynamicQuantizedConv(x, W, s, z)
    Mul(Cast(Add(ConvInteger(..), Reshape(Cast(Floor(Div(b, step)))))), step)
                                                    ->  DynamicQuantizedConv(x, W, s, z, b), rounds_bias
    Add(DynamicQuantizedConv(x, W, s, z), b)        ->  DynamicQuantizedConv(x, W, s, z, b)

Here q, q_scale, q_zero = DynamicQuantizeLinear(x), and step is Mul(q_scale, s). ONNX Runtime's quantiser writes the
first and the last form; early versions wrote the second. W, s and z are constants. W has 8-bit integers and is for a
convolution over two axes, s is a single float32. b is a constant with one number for each channel. Nobody else reads a
value in between. An exception is the quantised x, which each layer computes again. The pads are the same on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, both_orders, drop_unused, is_private, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.rewriting.idioms.parts.biases import is_per_channel, row_of
from onnxlift.rewriting.idioms.parts.quantised_weights import checked, windows
from onnxlift.stages import step

_LAYER = "DynamicQuantizedConv"


@step("dynamic-conv")
def run(model: ir.Model) -> int:
    """Make layers of convolutions of integers; return how many rewrites that took."""
    return sweep(model, {"Mul": _scaled, "Add": _with_bias})


def _scaled(edit: Edit, node: ir.Node) -> None:
    any(_layer(edit, node, numbers, step) for numbers, step in both_orders(node))


def _with_bias(edit: Edit, node: ir.Node) -> None:
    any(_bias(edit, node, value, bias) for value, bias in both_orders(node))


def _layer(edit: Edit, node: ir.Node, numbers: ir.Value, step: ir.Value) -> bool:
    cast, scales = made_by(edit, numbers, "Cast"), made_by(edit, step, "Mul")
    if cast is None or scales is None or not is_private(edit, numbers) or not is_private(edit, cast.inputs[0]):
        return False
    bias = _rounded_bias(edit, cast.inputs[0], step)
    product = made_by(edit, cast.inputs[0] if bias is None else bias.total, "ConvInteger")
    if product is None or not is_private(edit, product.outputs[0]) or not is_private(edit, step, 2 if bias else 1):
        return False
    quantized, weight, zero, weight_zero = (*product.inputs, None, None)[:4]
    dynamic, attributes = made_by(edit, quantized, "DynamicQuantizeLinear"), windows(product)
    if dynamic is None or zero is not dynamic.outputs[2] or attributes is None:
        return False
    for range_step, scale in both_orders(scales):
        stored = checked(edit, weight, scale, weight_zero, None, 3, 4)
        if range_step is not dynamic.outputs[1] or stored is None:
            continue
        if bias is None or shape_of(bias.held) == (_channels(product),):
            more = [] if bias is None else [ir.AttrInt64("rounds_bias", 1)]
            inputs = [dynamic.inputs[0], *stored, *([] if bias is None else [bias.held])]
            edit.replace(node, _LAYER, inputs, [*attributes, *more], domain=DOMAIN, named_by=product)
            drop_unused(edit, [cast, *([] if bias is None else bias.nodes), product, scales, dynamic])
            return True
    return False


@dataclass
class _RoundedBias:
    """A bias that is rounded to whole steps, and `total`, the value that it is added to.

    `held` is the constant. `nodes` are those that add it, the last one first.
    """

    total: ir.Value
    held: ir.Value
    nodes: list[ir.Node]


def _rounded_bias(edit: Edit, value: ir.Value | None, step: ir.Value) -> _RoundedBias | None:
    added = made_by(edit, value, "Add")
    if added is None:
        return None
    for total, steps in both_orders(added):
        nodes = _chain(edit, steps, ("Reshape", "Unsqueeze"), ("Cast",), ("Floor",), ("Div",))
        if nodes is None or nodes[-1].inputs[1] is not step:
            continue
        held, tensor = nodes[-1].inputs[0], constant(nodes[-1].inputs[0])
        if held is not None and tensor is not None and is_per_channel(steps, tensor.size, total):
            return _RoundedBias(total, held, [added, *nodes])
    return None


def _chain(edit: Edit, value: ir.Value | None, *steps: Sequence[str]) -> list[ir.Node] | None:
    """Return the nodes that make a value, the last one first, if each has one of these operators and one reader."""
    nodes: list[ir.Node] = []
    for op_types in steps:
        node = made_by(edit, value, *op_types) if is_private(edit, value) else None
        if node is None:
            return None
        nodes.append(node)
        value = node.inputs[0]
    return nodes


def _channels(layer: ir.Node) -> int:
    """Return the number of output channels."""
    weight = constant(layer.inputs[1])
    assert weight is not None
    return weight.shape.numpy()[0]


def _bias(edit: Edit, node: ir.Node, value: ir.Value, bias: ir.Value) -> bool:
    layer = made_by(edit, value, _LAYER, domain=DOMAIN)
    if layer is None or len(layer.inputs) > 4 or not is_private(edit, value):
        return False
    channels = _channels(layer)
    row = row_of(edit, bias, channels) if is_per_channel(bias, channels, value) else None
    if row is None:
        return False
    attributes = [*layer.attributes.values()]
    edit.replace(node, _LAYER, [*layer.inputs, row], attributes, domain=DOMAIN, named_by=layer)
    drop_unused(edit, [layer])
    return True
