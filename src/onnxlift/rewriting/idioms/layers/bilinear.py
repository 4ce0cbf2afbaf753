"""Two vectors on both sides of a matrix, one matrix for each feature, are an `nn.Bilinear`.

    Squeeze(MatMul(Reshape(MatMul(x, M), (..., out, second)), Unsqueeze(y, -1)), -1)   ->   Bilinear(x, y, W)
    the same and a bias, Add(.., b)                                                   ->   Bilinear(x, y, W, b)

M is made by PyTorch's newer exporter from the weight, which has the shape (out, first, second). M is a matrix of
(first, out * second). It is a constant, or a Reshape of one, with or without a Transpose that brings `first` to the
front. W is that constant.

x and y have the same axes in front of the features. b is a parameter with one number for each output. Nobody else reads
a value in between. Sound because it is the definition: the sum over both features of x * weight[out] * y.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, both_orders, drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import Dim, shape_of
from onnxlift.ir.graph.types import is_float
from onnxlift.ir.inference.symbolic import product
from onnxlift.ir.origin.tensors import may_be_trained
from onnxlift.stages import step


@step("bilinear")
def run(model: ir.Model) -> int:
    """Recognise bilinear layers; return how many."""
    return sweep(model, {("Squeeze", "Reshape"): _products, "Add": _bias})


def _products(edit: Edit, node: ir.Node) -> None:
    last = made_by(edit, node.inputs[0], "MatMul")
    cut = made_by(edit, last.inputs[0], "Reshape") if last is not None else None
    column = made_by(edit, last.inputs[1], "Unsqueeze", "Reshape") if last is not None else None
    first = made_by(edit, cut.inputs[0], "MatMul") if cut is not None else None
    if last is None or cut is None or column is None or first is None:
        return
    x, matrix, y = *first.inputs, column.inputs[0]
    left, right, result = shape_of(x), shape_of(y), shape_of(node.outputs[0])
    if matrix is None or left is None or not right or not result:
        return
    if left[:-1] != right[:-1] or left[:-1] != result[:-1] or shape_of(cut.outputs[0]) != (*result, right[-1]):
        return
    # The number of elements is that of y, so the column has the axes of y and one more at the end.
    if not all(is_private(edit, value) for value in (node.inputs[0], *last.inputs, cut.inputs[0])):
        return
    found = _weight(edit, matrix, (left[-1], result[-1], right[-1]))
    if found is None:
        return
    weight, as_held, nodes = found
    edit.replace(node, "Bilinear", [x, y, weight], [ir.AttrInt64("as_held", int(as_held))], domain=DOMAIN)
    drop_unused(edit, [last, column, cut, first, *nodes])


def _weight(edit: Edit, matrix: ir.Value, sizes: tuple[Dim, Dim, Dim]) -> tuple[ir.Value, bool, list[ir.Node]] | None:
    """Return the constant that the matrix is made of, whether it is as PyTorch holds it, and the nodes in between.

    `sizes` are those of the first vector, of the outputs and of the second vector.
    """
    if shape_of(matrix) != (sizes[0], product(sizes[1:])) or 0 in sizes:
        return None
    flat = made_by(edit, matrix, "Reshape", "Flatten")
    source = matrix if flat is None else flat.inputs[0]
    turned = made_by(edit, source, "Transpose")
    weight = source if turned is None else turned.inputs[0]
    if weight is None or constant(weight) is None or not is_float(weight):
        return None
    if flat is not None and shape_of(source) != sizes:
        return None
    if turned is not None and permutation(turned) != (1, 0, 2):
        return None
    return weight, turned is not None, [node for node in (flat, turned) if node is not None]


def _bias(edit: Edit, node: ir.Node) -> None:
    for value, bias in both_orders(node):
        layer = made_by(edit, value, "Bilinear", domain=DOMAIN)
        if layer is None or len(layer.inputs) > 3 or not may_be_trained(bias) or not is_private(edit, value):
            continue
        shape = shape_of(value)
        if shape is not None and shape_of(bias) == shape[-1:]:
            edit.replace(node, "Bilinear", [*layer.inputs, bias], layer.attributes.values(), domain=DOMAIN)
            drop_unused(edit, [layer])
            return
