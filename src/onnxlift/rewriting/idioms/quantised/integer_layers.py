"""A layer that computes with integers from end to end is one layer, which knows the steps of its input and result.

    QLinearConv(x, sx, zx, W, sw, zw, sy, zy, b)   ->  IntegerConv(x, W, sw, zw, sx, zx, sy, zy, b)
    QLinearMatMul(x, sx, zx, W, sw, zw, sy, zy)    ->  IntegerLinear(x, W, sw, zw, sx, zx, sy, zy)
    QLinearMatMul(a, sa, za, b, sb, zb, sy, zy)    ->  IntegerMatMul(a, b, sa, za, sb, zb, sy, zy)

In the last one a and b are both computed. W, its scale and its zero point are constants as in `quantized_layers.py`,
the scales and zero points of input and result are single constant numbers, and a bias is a constant. All scales are
float32, and all integers have 8 bits.

Not for a convolution over other than two axes or with pads that differ between both sides. Sound because the layer adds
up the same integers, and scales and rounds the sums as the node does.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN
from onnxlift.ir.graph.constants import constant
from onnxlift.rewriting.idioms.parts.quantised_weights import STORED, checked, windows
from onnxlift.stages import step


@step("integer-layers")
def run(model: ir.Model) -> int:
    """Make layers of products of integers; return how many."""
    return sweep(model, {"QLinearConv": _conv, "QLinearMatMul": _linear})


def _conv(edit: Edit, node: ir.Node) -> None:
    attributes, bias = windows(node), node.inputs[8] if len(node.inputs) > 8 else None
    if attributes is None or (bias is not None and constant(bias) is None):
        return
    stored = _stored(edit, node, 0, 3, 4)
    ends = None if stored is None else _ends(node)
    if stored is not None and ends is not None:
        inputs = [node.inputs[0], *stored, *ends] if bias is None else [node.inputs[0], *stored, *ends, bias]
        _name(edit.replace(node, "IntegerConv", inputs, attributes, domain=DOMAIN))


def _linear(edit: Edit, node: ir.Node) -> None:
    if constant(node.inputs[3]) is None:
        _product(edit, node)
        return
    stored = _stored(edit, node, 1, 2)
    ends = None if stored is None else _ends(node)
    if stored is not None and ends is not None:
        _name(edit.replace(node, "IntegerLinear", [node.inputs[0], *stored, *ends], domain=DOMAIN))


def _product(edit: Edit, node: ir.Node) -> None:
    """Recognise a product of two matrices that are both computed, with one step for each of them."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs
    steps = [constant(value) for value in (a_scale, a_zero, b_scale, b_zero, y_scale, y_zero)]
    types = {value.dtype for value in (a, b, *node.outputs) if value is not None}
    if any(step is None or step.size != 1 for step in steps) or len(types) != 1 or not types <= {*STORED}:
        return
    if any(step is None or step.dtype != ir.DataType.FLOAT for step in steps[::2]):
        return
    inputs = [a, b, a_scale, a_zero, b_scale, b_zero, y_scale, y_zero]
    _name(edit.replace(node, "IntegerMatMul", inputs, domain=DOMAIN))


def _stored(edit: Edit, node: ir.Node, axis: int, *axes: int) -> list[ir.Value] | None:
    weight, scale, zero = node.inputs[3:6]
    return checked(edit, weight, scale, zero, axis, *axes)


def _name(layer: ir.Node) -> None:
    """Call a layer what it was called before ONNX Runtime's quantiser added to its name."""
    layer.name = None if layer.name is None else layer.name.removesuffix("_quant")


def _ends(node: ir.Node) -> list[ir.Value] | None:
    """Return the scales and zero points of input and result, if each is one constant number."""
    found: list[ir.Value] = []
    for value in (*node.inputs[1:3], *node.inputs[6:8]):
        tensor = constant(value)
        if value is None or tensor is None or tensor.size != 1 or tensor.dtype not in (ir.DataType.FLOAT, *STORED):
            return None
        found.append(value)
    return found
