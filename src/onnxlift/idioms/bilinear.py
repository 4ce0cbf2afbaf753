"""Two vectors on both sides of a matrix, one for each feature: `nn.Bilinear`.

    Squeeze(MatMul(Reshape(MatMul(x, M), (..., out, second)), Unsqueeze(y, -1)), -1)   ->   Bilinear(x, y, W)
    the same and a bias, Add(.., b)                                                   ->   Bilinear(x, y, W, b)

M is what PyTorch's newer exporter makes of the weight (out, first, second): a matrix of (first, out * second). It is a
constant, or a Reshape of one, with or without a Transpose that brings `first` to the front; W is the constant.

x and y have the same axes in front of the features. b is a parameter with one number for each output. Nobody else
reads what is in between. Sound because it is the definition: the sum over both features of x * weight[out] * y.
"""

from __future__ import annotations

import onnx_ir as ir

from ..ir.node_view import Shape, shape_of
from ..ir.scopes import constant
from ..passes.edit import Edit, is_parameter, is_standard, sweep
from ..passes.transposes import permutation
from .match import DOMAIN, both_orders, drop_unused, is_float, is_private, made_by


def run(model: ir.Model) -> int:
    """Recognise bilinear layers; gives how many."""
    return sweep(model, _visit)


def _visit(edit: Edit, node: ir.Node) -> None:
    if is_standard(node, "Squeeze", "Reshape"):
        _products(edit, node)
    elif is_standard(node, "Add"):
        _bias(edit, node)


def _products(edit: Edit, node: ir.Node) -> None:
    last = made_by(edit, node.inputs[0], "MatMul")
    cut = made_by(edit, last.inputs[0], "Reshape") if last is not None else None
    column = made_by(edit, last.inputs[1], "Unsqueeze", "Reshape") if last is not None else None
    first = made_by(edit, cut.inputs[0], "MatMul") if cut is not None else None
    if last is None or cut is None or column is None or first is None:
        return
    x, matrix, y = *first.inputs, column.inputs[0]
    left, right = shape_of(x), shape_of(y)
    if not left or not right or left[:-1] != right[:-1] or not isinstance(right[-1], int) or matrix is None:
        return
    if not all(is_private(edit, value) for value in (node.inputs[0], *last.inputs, cut.inputs[0])):
        return
    parts = shape_of(cut.outputs[0]) or ()
    out = parts[-2] if len(parts) == len(left) + 1 else None
    found = _weight(edit, matrix, (left[-1], out, right[-1]))
    if out is None or found is None or parts != (*left[:-1], out, right[-1]):
        return
    if shape_of(column.outputs[0]) != (*right, 1) or shape_of(node.outputs[0]) != (*left[:-1], out):
        return
    weight, as_held, nodes = found
    edit.replace(node, "Bilinear", [x, y, weight], [ir.AttrInt64("as_held", int(as_held))], domain=DOMAIN)
    drop_unused(edit, [last, column, cut, first, *nodes])


def _weight(edit: Edit, matrix: ir.Value, sizes: tuple[object, ...]) -> tuple[ir.Value, bool, list[ir.Node]] | None:
    """The constant that the matrix is made of, whether that is as PyTorch holds it, and the nodes in between. `sizes`
    are those of the first vector, of the outputs and of the second vector."""
    flat = made_by(edit, matrix, "Reshape", "Flatten")
    source = matrix if flat is None else flat.inputs[0]
    turned = made_by(edit, source, "Transpose")
    weight = source if turned is None else turned.inputs[0]
    if weight is None or constant(weight) is None or not is_float(weight):
        return None
    if turned is not None and (permutation(turned) != (1, 0, 2) or shape_of(source) != sizes):
        return None
    shape: Shape = shape_of(source) or ()
    rows_fit = shape == sizes if len(shape) == 3 else flat is None and shape[:1] == sizes[:1]
    nodes = [node for node in (flat, turned) if node is not None]
    return (weight, turned is not None, nodes) if rows_fit and (shape_of(matrix) or ())[:1] == sizes[:1] else None


def _bias(edit: Edit, node: ir.Node) -> None:
    for value, bias in both_orders(node):
        layer = made_by(edit, value, "Bilinear", domain=DOMAIN)
        if layer is None or len(layer.inputs) > 3 or not is_parameter(bias) or not is_private(edit, value):
            continue
        if shape_of(bias) == (shape_of(value) or ())[-1:]:
            edit.replace(node, "Bilinear", [*layer.inputs, bias], layer.attributes.values(), domain=DOMAIN)
            drop_unused(edit, [layer])
            return
