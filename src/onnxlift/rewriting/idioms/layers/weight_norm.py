"""A weight that is a length times a direction was made by `torch.nn.utils.weight_norm` or its parametrisation.

    Mul(Div(v, ReduceL2(v)), g)  ->  the weight of a layer that is written as weight_norm(nn.Linear(...))
    Mul(v, Div(g, ReduceL2(v)))

The lengths are taken over all axes but one, `dim`, which is kept; by default it is the first. Or they are taken over
all axes: then g is a single number without axes (`dim=None`). For an axis in the middle, PyTorch makes a matrix of v
with that axis in front, and brings the lengths of its rows back into shape. Sound because a length does not depend on
the order of the other axes, and because lengths along a single axis keep their order, however they are reshaped.

It applies to the weight of a linear layer or convolution, if g and v are named as one of the two functions names them:
`weight_g` and `weight_v`, or `parametrizations.weight.original0` and `original1`.

Not if g has a shape that the function would not give it (PyTorch's older exporter takes `dim=None` for the last axis),
if another node reads a value in between, or if anything but layers reads the weight.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, sweep
from onnxlift.ir.editing.match import both_orders, drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import axes_of, permutation
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import Shape, rank, shape_of
from onnxlift.ir.inference.symbolic import product
from onnxlift.ir.origin.tensors import may_be_trained
from onnxlift.rewriting.idioms.parts.computed_weight import ComputedWeight, layer_of, numbers, owner_of, put
from onnxlift.stages import step

_NAMES = {
    "nn.utils.weight_norm": ("weight_g", "weight_v"),
    "nn.utils.parametrizations.weight_norm": ("parametrizations.weight.original0", "parametrizations.weight.original1"),
}


@step("weight-norm")
def run(model: ir.Model) -> int:
    """Recognise weights that are a length times a direction; return how many."""
    return sweep(model, {"Mul": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    for first, second in both_orders(node):
        quotient = made_by(edit, second, "Div")
        if quotient is None or not is_private(edit, second):
            continue
        dividend, divisor = quotient.inputs
        found = _norm(edit, divisor)
        if found is None or dividend is None:
            continue
        norm, moves = found
        for g, v in ((first, dividend), (dividend, first)):
            if _matches(edit, node, norm, divisor, g, v):
                drop_unused(edit, [quotient, *moves, norm])
                return


def _norm(edit: Edit, lengths: ir.Value | None) -> tuple[ir.Node, list[ir.Node]] | None:
    """Return the node that computes these lengths, and the nodes that bring them into shape, the last one first."""
    moves: list[ir.Node] = []
    while is_private(edit, lengths):
        norm, move = made_by(edit, lengths, "ReduceL2"), made_by(edit, lengths, "Reshape", "Unsqueeze", "Transpose")
        if norm is not None:
            return norm, moves
        if move is None or not _is_row(move.inputs[0]):
            return None
        moves.append(move)
        lengths = move.inputs[0]
    return None


def _is_row(value: ir.Value | None) -> bool:
    """Tell whether at most one axis is longer than 1: then a reshape or transpose keeps the order of the elements."""
    shape = shape_of(value)
    return shape is not None and sum(size != 1 for size in shape) <= 1


def _matches(edit: Edit, node: ir.Node, norm: ir.Node, divisor: ir.Value | None, g: ir.Value, v: ir.Value) -> bool:
    """Replace the product if it is a weight of length `g` and direction `v`; return whether it is."""
    shape = shape_of(v)
    if not may_be_trained(g) or not may_be_trained(v) or shape is None or layer_of(edit, node.outputs[0]) is None:
        return False
    kept = _kept_axes(edit, norm, v, shape)
    names = _names(g, v)
    divides = shape_of(divisor)
    if kept is None or names is None or divides is None:
        return False
    dim = kept[0] if kept else None
    lengths = tuple(size if axis == dim else 1 for axis, size in enumerate(shape))
    if shape_of(g) != (lengths if kept else ()) or (1,) * (len(shape) - len(divides)) + divides != lengths:
        return False
    function, owner = names
    parts = dict(zip(_NAMES[function], (g, v), strict=True))
    arguments = {} if dim == 0 else {"dim": dim}
    put(edit, node, owner, ComputedWeight(function, parts, arguments), lambda: _weight(g, v, dim))
    return True


def _kept_axes(edit: Edit, norm: ir.Node, v: ir.Value, shape: Shape) -> list[int] | None:
    """Return the axes of `v` over which the norm is not taken; None if it is not the norm of `v`."""
    source = norm.inputs[0]
    axes = axes_of(norm)
    if axes is None and len(norm.inputs) > 1 and norm.inputs[1] is not None:
        return None
    if not axes and attribute(norm, "noop_with_empty_axes", 0):
        return None
    if source is not v:
        return _rows(edit, source, v, shape, axes)
    if not axes:
        return []
    return [axis for axis in range(len(shape)) if axis not in axes and axis - len(shape) not in axes]


def _rows(
    edit: Edit, source: ir.Value | None, v: ir.Value, shape: Shape, axes: tuple[int, ...] | None
) -> list[int] | None:
    """Return the axes of `v` over which the norm of `source` is not taken, if `source` is a reshape of `v`.

    It is `v` in one axis, or a matrix with one axis of `v` in front and the others flattened into one.
    """
    flat = made_by(edit, source, "Reshape", "Flatten")
    inner = source if flat is None else flat.inputs[0]
    turned = made_by(edit, inner, "Transpose")
    order = range(len(shape)) if turned is None else permutation(turned)
    if not order or (inner if turned is None else turned.inputs[0]) is not v:
        return None
    if rank(source) == 1:
        return []
    first, *others = order
    rows = (shape[first], product(shape[axis] for axis in others))
    return [first] if axes in ((1,), (-1,)) and shape_of(source) == rows else None


def _names(g: ir.Value, v: ir.Value) -> tuple[str, str] | None:
    """Return the function that gives its parameters these names, and the module that they belong to."""
    for function, (length, direction) in _NAMES.items():
        owner = owner_of(g, length)
        if owner is not None and owner == owner_of(v, direction):
            return function, owner
    return None


def _weight(g: ir.Value, v: ir.Value, dim: int | None) -> Array:
    directions = numbers(v)
    axes = tuple(axis for axis in range(directions.ndim) if axis != dim)
    squares = np.square(directions).sum(axes, keepdims=True)
    result: Array = directions * (numbers(g) / np.sqrt(squares))
    return result
