"""Match what normalisations share: a division by the root of a mean square, and their weights and casts."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import (
    DOMAIN,
    both_orders,
    drop_unused,
    is_private,
    made_by,
    number_beside,
    polynomial,
    with_number,
)
from onnxlift.ir.editing.near_misses import near_miss
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.ir.graph.types import is_float

_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


@dataclass
class Scaled:
    """The pattern `x / sqrt(mean(x ** 2) + epsilon)`, with a mean over the last axes, from `axis` (negative) on.

    `readers` says how often the pattern reads x. `nodes` are its nodes without the last.
    """

    x: ir.Value
    axis: int
    epsilon: float
    readers: int
    nodes: list[ir.Node]


def scaled_by_root_mean_square(edit: Edit, node: ir.Node) -> Scaled | None:
    """Return the pattern that ends with `node`, if there is one.

    `node` is a Div, or a Mul by the reciprocal of the root. The reciprocal is a Reciprocal, 1 / root, or a power of
    -0.5.
    """
    if is_standard(node, "Div"):
        x, root = node.inputs
        return None if x is None else _over_root(edit, x, root, [])
    if is_standard(node, "Mul"):
        for x, factor in both_orders(node):
            found = times_inverse_root(edit, x, factor)
            if found is not None:
                return found
    return None


def times_inverse_root(edit: Edit, x: ir.Value, factor: ir.Value) -> Scaled | None:
    """Return the pattern of `x * factor`, if the factor is the reciprocal of the root of the mean square of x."""
    inverse = made_by(edit, factor, "Reciprocal", "Div", "Pow")
    if inverse is None or not is_private(edit, factor):
        return None
    if inverse.op_type == "Reciprocal":
        return _over_root(edit, x, inverse.inputs[0], [inverse])
    first, second = inverse.inputs
    if inverse.op_type == "Div":
        return _over_root(edit, x, second, [inverse]) if number_beside(second, first) == 1.0 else None
    return _over_variance(edit, x, first, [inverse]) if number_beside(first, second) == -0.5 else None


def _over_root(edit: Edit, x: ir.Value, root: ir.Value | None, nodes: list[ir.Node]) -> Scaled | None:
    node = made_by(edit, root, "Sqrt", "Pow")
    if node is None or not is_private(edit, root):
        return None
    if node.op_type == "Pow" and number_beside(*node.inputs) != 0.5:
        return None
    return _over_variance(edit, x, node.inputs[0], [*nodes, node])


def _over_variance(edit: Edit, x: ir.Value, variance: ir.Value | None, nodes: list[ir.Node]) -> Scaled | None:
    add = made_by(edit, variance, "Add")
    found = with_number(add) if add is not None else None
    if add is None:
        return None
    if found is None or not is_private(edit, variance) or not is_float(x):
        near_miss(add, "the epsilon is not a number, or others read the sum with it")
        return None
    mean_square, epsilon = found
    mean, axis = mean_before(edit, mean_square), reduced_axis(edit, mean_square)
    if mean is None:
        return None
    if axis is None or not is_private(edit, mean_square):
        near_miss(add, "the mean is not over the last axes and keeps them, or others read it")
        return None
    square = polynomial(edit, mean.inputs[0])
    if square is None or not is_private(edit, mean.inputs[0]) or not square.equals({(x, x): 1.0}, x.dtype):
        if constant(x) is None:  # 1 / root is only a part of the pattern
            near_miss(add, "the mean is not of the square of what is divided by its root, or others read the square")
        return None
    readers = 1 + sum(value is x for n in square.nodes for value in n.inputs)
    return Scaled(x, axis, epsilon, readers, [*nodes, add, mean, *square.nodes])


def mean_before(edit: Edit, value: ir.Value | None) -> ir.Node | None:
    """Return the node that makes `value`, if it is a mean over some axes: a ReduceMean, or what TensorFlow's converter
    writes for one over the last of three axes, a GlobalAveragePool."""
    node = made_by(edit, value, "ReduceMean", "GlobalAveragePool")
    return node if node is None or node.op_type == "ReduceMean" or rank(value) == 3 else None


def reduced_axis(edit: Edit, value: ir.Value | None) -> int | None:
    """Return the first (negative) axis that the mean before `value` is taken over.

    Return None unless it is over the last axes and keeps them.
    """
    node = mean_before(edit, value)
    if node is not None and node.op_type == "GlobalAveragePool":
        return -1
    if node is None or attribute(node, "keepdims", 1) != 1:
        return None
    axes, count = axes_of(node), rank(node.inputs[0])
    if not axes:
        return None
    if count is None:
        return -1 if list(axes) == [-1] else None
    counted = sorted(axis - count if axis >= 0 else axis for axis in axes)
    return counted[0] if counted == list(range(-len(counted), 0)) else None


def take_weight(edit: Edit, node: ir.Node, op_type: str) -> bool:
    """Replace `Mul(norm(x), w)` by `norm(x, w)`, if w is a constant with a number for each normalised element."""
    return is_standard(node, "Mul") and _take(edit, node, op_type, inputs=1)


def take_bias(edit: Edit, node: ir.Node, op_type: str) -> bool:
    """Replace `Add(norm(x, w), b)` by `norm(x, w, b)`, if b is a constant with a number for each normalised element."""
    return _take(edit, node, op_type, inputs=2)


def _take(edit: Edit, node: ir.Node, op_type: str, inputs: int) -> bool:
    for value, weight in both_orders(node):
        norm = made_by(edit, value, op_type, domain=DOMAIN)
        if norm is None or len(norm.inputs) != inputs or not is_private(edit, value):
            continue
        shape, axis = shape_of(value), norm.attributes["axis"].as_int()
        if constant(weight) is None or shape is None or shape_of(weight) != shape[axis:]:
            near_miss(node, "the weight or bias is not a constant with one number for each normalised element")
            continue
        attributes = list(norm.attributes.values())
        edit.replace(node, op_type, [*norm.inputs, weight], attributes, domain=DOMAIN, named_by=node)
        drop_unused(edit, [norm])
        return True
    return False


def take_casts(edit: Edit, node: ir.Node, op_type: str) -> bool:
    """Replace `Cast(norm(Cast(x, float32)), half)` by `norm(x)`, for a half-precision x and a norm without weights.

    Sound because PyTorch computes the norm of a half-precision tensor in float32 by itself.
    """
    wide = node.inputs[0]
    norm = made_by(edit, wide, op_type, domain=DOMAIN)
    if norm is None or len(norm.inputs) != 1 or not is_private(edit, wide):
        return False
    cast = made_by(edit, norm.inputs[0], "Cast")
    source = cast.inputs[0] if cast is not None else None
    if cast is None or source is None or source.dtype != node.outputs[0].dtype:
        return False
    if wide is None or wide.dtype != ir.DataType.FLOAT or source.dtype not in _HALF:
        return False
    edit.replace(node, op_type, [source], list(norm.attributes.values()), domain=DOMAIN, named_by=norm)
    drop_unused(edit, [norm, cast])
    return True


def norm_attributes(scaled: Scaled) -> list[ir.Attr]:
    """Return the attributes of the norm that begins with this pattern."""
    return [ir.AttrInt64("axis", scaled.axis), ir.AttrFloat32("epsilon", scaled.epsilon)]
