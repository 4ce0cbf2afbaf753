"""An attention whose values are (..., features, keys), with the weights on their right, is turned around.

    MatMul(v, Transpose(p))              ->   Transpose(MatMul(p, Transpose(v)))
    MatMul(v, Softmax(c * (k @ q), -2))  ->   Transpose(MatMul(Softmax(c * (q.T @ k.T), -1), Transpose(v)))

p are the weights of an attention (parts/scores.py), and every Transpose swaps the last two axes. VQGAN, Stable
Diffusion and SAGAN attend to images like this, because their 1x1 convolutions give (batch, channels, positions). A
Transpose that follows is dropped together with the new one. The idiom of attention recognises the result.

Not if another node reads the weights, if the softmax goes over the other axis (then it is no attention), or if the
scores are no product of two tensors with as many axes as v. Sound because (A B).T = B.T A.T, and a softmax over an axis
goes with that axis.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import Dim, rank, shape_of
from onnxlift.rewriting.idioms.attention.parts.keys import swapped, swapped_axes, without_scale
from onnxlift.rewriting.idioms.attention.parts.scores import find_weights
from onnxlift.stages import step


@step(
    "turned-attention",
    after={
        "einsum": "it looks for products of matrices",
        "linear": "a product with a parameter is a layer and no part of an attention",
        "flattened-heads": "the matrices have axes for batch and heads by then",
        "shifted-softmax": "it looks for a plain softmax",
    },
)
def run(model: ir.Model) -> int:
    """Turn attentions with weights on the right around; return how many."""
    return sweep(model, {"MatMul": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if rank(node.outputs[0]) not in (3, 4):
        return
    v, turned = node.inputs
    if v is None or turned is None or not is_private(edit, turned) or rank(v) != rank(node.outputs[0]):
        return
    old = [node]
    weights = _upright(edit, turned, rank(v), old) or _of_columns(edit, node, turned, rank(v), old)
    if weights is None:
        return
    result = node.outputs[0]
    swap = _swap_of(edit, result)
    values = _transpose(edit, node, v)
    if swap is not None:
        edit.replace(swap, "MatMul", [weights, values])
    else:
        name, shape = f"{result.name}.turned", _swapped_shape(result)
        product = edit.insert(node, "MatMul", [weights, values], like=result, shape=shape, name=name)
        edit.replace(node, "Transpose", [product], [_order(product)])
    drop_unused(edit, old)


def _upright(edit: Edit, turned: ir.Value, axes: int | None, old: list[ir.Node]) -> ir.Value | None:
    """Return the weights of an attention that `turned` is the transpose of."""
    transpose = made_by(edit, turned, "Transpose")
    if transpose is None or not _swaps(transpose):
        return None
    weights = find_weights(edit, transpose.inputs[0], [])
    if weights is None or not weights.fit(axes):
        return None
    old.append(transpose)
    return transpose.inputs[0]


def _of_columns(edit: Edit, root: ir.Node, turned: ir.Value, axes: int | None, old: list[ir.Node]) -> ir.Value | None:
    """Return the transpose of a softmax over the last axis but one, computed as a softmax over the last axis.

    Return None if `turned` is no such softmax of a product.
    """
    softmax = made_by(edit, turned, "Softmax")
    if softmax is None or axes is None or attribute(softmax, "axis", -1) not in (-2, axes - 2):
        return None
    nodes = [softmax]
    scores, _ = without_scale(edit, softmax.inputs[0], nodes)
    product = made_by(edit, scores, "MatMul")
    if product is None or not is_private(edit, scores):
        return None
    keys, queries = product.inputs
    if edit.opset(softmax) < 13 or keys is None or queries is None or not rank(keys) == rank(queries) == axes:
        return None
    shape = _swapped_shape(turned)
    factors = [_transpose(edit, root, queries), _transpose(edit, root, keys)]
    upright = edit.insert(root, "MatMul", factors, like=turned, shape=shape, name=f"{turned.name}.scores")
    for part in reversed(nodes[1:]):  # the one that scales
        inputs = [upright if value is scores else value for value in part.inputs]
        upright = edit.insert(root, part.op_type, inputs, like=turned, shape=shape, name=f"{turned.name}.scaled")
    old += [*nodes, product]
    last = [ir.AttrInt64("axis", -1)]
    return edit.insert(root, "Softmax", [upright], last, like=turned, shape=shape, name=f"{turned.name}.weights")


def _swap_of(edit: Edit, value: ir.Value) -> ir.Node | None:
    """Return the transpose that is the only reader of `value` and swaps its last two axes."""
    if not is_private(edit, value):
        return None
    ((user, _),) = value.uses()
    return user if user.graph is edit.graph and _swaps(user) else None


def _transpose(edit: Edit, root: ir.Node, value: ir.Value) -> ir.Value:
    """Return `value` with its last two axes swapped: the input of the transpose that makes it, or a new transpose."""
    transpose = made_by(edit, value, "Transpose")
    if transpose is not None and _swaps(transpose) and transpose.inputs[0] is not None:
        return transpose.inputs[0]
    name, shape = f"{value.name}.turned", _swapped_shape(value)
    return edit.insert(root, "Transpose", [value], [_order(value)], like=value, shape=shape, name=name)


def _swaps(node: ir.Node) -> bool:
    order = permutation(node)
    return order is not None and list(order) == swapped(range(len(order)))


def _order(value: ir.Value) -> ir.Attr:
    return ir.AttrInt64s("perm", swapped_axes(value))


def _swapped_shape(value: ir.Value) -> list[Dim | None]:
    shape = shape_of(value)
    return [None for _ in swapped_axes(value)] if shape is None else [*swapped(shape)]
