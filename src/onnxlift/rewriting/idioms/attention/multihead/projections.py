"""Linear projections whose weights are parts of larger ones, as `nn.MultiheadAttention` packs them.

    Linear(x, W, b)                                            all rows of W
    Add(MatMul(x, Transpose(part of W)), part of b)            some rows of W, cut out by a Slice or a Split
    Add(Linear(x, W), part of b)                               all rows of W, and some numbers of b

The idiom `linear` finds the first form. In the second, the weight is computed at run time, so that it is no layer by
itself: queries that attend to another value than themselves are projected like this. In the third only the bias is
packed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import DOMAIN, both_orders, made_by
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.origin.tensors import may_be_trained
from onnxlift.rewriting.idioms.parts.pieces import piece


@dataclass
class Projection:
    """A projection `x @ weight[start : start + rows].T + bias[bias_start : bias_start + rows]`, and its nodes."""

    x: ir.Value
    weight: ir.Value
    bias: ir.Value | None
    start: int
    rows: int
    columns: int
    is_transposed: bool
    """True if the weight is stored as in PyTorch, (out, in)."""
    bias_start: int = 0
    nodes: list[ir.Node] = field(default_factory=list)


def find_projection(edit: Edit, value: ir.Value | None) -> Projection | None:
    """Return the projection that makes `value`."""
    linear = made_by(edit, value, "Linear", domain=DOMAIN)
    if linear is not None:
        return _of_linear(linear)
    total = made_by(edit, value, "Add")
    if total is None:
        return _of_part(edit, value)
    for product, added in both_orders(total):
        linear = made_by(edit, product, "Linear", domain=DOMAIN)
        found = _of_part(edit, product) if linear is None else _of_linear(linear)
        bias = _part(edit, added)
        if found is None or found.bias is not None or bias is None:
            continue
        if shape_of(added) == (found.rows,):
            found.bias, found.bias_start, _ = bias
            found.nodes.insert(0, total)
            return found
    return None


def _of_linear(linear: ir.Node) -> Projection | None:
    x, weight, bias = (*linear.inputs, None)[:3]
    shape = shape_of(weight)
    if x is None or weight is None or shape is None:
        return None
    is_transposed = bool(attribute(linear, "transposed", 0))
    columns, rows = (int(size) for size in (reversed(shape) if is_transposed else shape))
    return Projection(x, weight, bias, 0, rows, columns, is_transposed, nodes=[linear])


def _of_part(edit: Edit, value: ir.Value | None) -> Projection | None:
    """Return the projection by some rows of a weight."""
    product = made_by(edit, value, "MatMul")
    turned = None if product is None else made_by(edit, product.inputs[1], "Transpose")
    order = None if turned is None else permutation(turned)
    if product is None or product.inputs[0] is None or turned is None or order is None or list(order) != [1, 0]:
        return None
    found = _part(edit, turned.inputs[0])
    if found is None:
        return None
    weight, start, rows = found
    shape = shape_of(weight)
    if shape is None or not isinstance(shape[1], int):
        return None
    return Projection(product.inputs[0], weight, None, start, rows, shape[1], True, nodes=[product])


def _part(edit: Edit, value: ir.Value | None) -> tuple[ir.Value, int, int] | None:
    """Return the parameter that `value` is some rows of, the first of these rows, and their number."""
    found = piece(edit, value)
    if found is None or found.axis != 0 or not may_be_trained(found.x):
        return None
    return found.x, found.start, found.length
