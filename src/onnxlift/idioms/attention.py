"""Scaled dot-product attention, spelled out.

    MatMul(Softmax(MatMul(q, k.T) * scale + mask), v)   ->   Attention(q, k, v, mask, scale=...)

q, k and v have the same number of axes, three or four. The forms of each part:

- scale: a Mul or Div by a number, on the scores, on q, on k or on several of them; without one the scale is 1
- k.T: a Transpose (which may do more: then k keeps the rest of it); anything else is transposed for the purpose
- mask: added to the scaled scores; `Where(m, 0, -inf)` added to them, or `Where(m, scores, -inf)`, is the boolean mask
  m; with a huge negative number in the place of -inf it is added, since then a row without any key is not the same;
  a constant mask that hides exactly what lies after each query is `is_causal`
- `Where(IsNaN(p), 0, p)` around the softmax, PyTorch's spelling of "no key, no value": its attention does that itself
- casts of the scores to float32 and of the result back, which PyTorch's attention does itself
- k and v repeated for several heads of q (Unsqueeze, Expand, Reshape): grouped queries, `enable_gqa`

Not if the softmax goes over another axis, if another node or the caller reads the scores or the probabilities, or if
the mask would give the scores more axes. Sound because this is the definition of attention in PyTorch; the order of
roundings differs. Where every key of a row is masked by -inf, PyTorch gives 0, and so does the model with the guard
for NaN; without it the row would not be numbers at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import onnx_ir as ir

from ..passes.edit import Edit, attribute, is_standard, sweep
from ..passes.transposes import permutation
from .attention_mask import find_mask
from .grouped_heads import before_repetition
from .match import (
    DOMAIN,
    divided_by_number,
    drop_unused,
    is_close,
    is_float,
    is_private,
    known_shape,
    made_by,
    number,
    rank,
    with_number,
)


@dataclass
class Scores:
    """`scale * (q @ k_transposed)`, masked. `nodes` come in the order in which they can be dropped."""

    q: ir.Value
    k_transposed: ir.Value
    scale: float
    nodes: list[ir.Node] = field(default_factory=list)


def run(model: ir.Model) -> int:
    """Recognise attention; gives how often."""
    return sweep(model, _visit)


def _visit(edit: Edit, node: ir.Node) -> None:
    if not is_standard(node, "MatMul") or rank(node.outputs[0]) not in (3, 4):
        return
    probabilities, v = node.inputs
    nodes: list[ir.Node] = []
    unmasked = _before_softmax(edit, probabilities, nodes)
    if unmasked is None or v is None:
        return
    mask = find_mask(edit, unmasked, nodes)
    scores = _scores(edit, mask.scores, nodes)
    if scores is None or not rank(scores.q) == rank(scores.k_transposed) == rank(v) == rank(node.outputs[0]):
        return
    if not mask.fits(rank(v)):
        return
    k = _transposed_back(edit, node, scores)
    attributes = _scale(scores, v)
    grouped = before_repetition(edit, scores.q, k, v)
    if grouped is not None:
        k, v, repetition = grouped
        scores.nodes.extend(repetition)
        attributes.append(ir.AttrInt64("enable_gqa", 1))
    if mask.is_causal:
        attributes.append(ir.AttrInt64("is_causal", 1))
    value = mask.value(edit, node)
    inputs = [scores.q, k, v] if value is None else [scores.q, k, v, value]
    edit.replace(node, "Attention", inputs, attributes, domain=DOMAIN)
    drop_unused(edit, scores.nodes)


def _before_softmax(edit: Edit, probabilities: ir.Value | None, nodes: list[ir.Node]) -> ir.Value | None:
    """What goes into the softmax over the last axis that `probabilities` come from, if nobody else reads those."""
    if not is_private(edit, probabilities):
        return None
    cast = made_by(edit, probabilities, "Cast")
    if cast is not None and is_private(edit, cast.inputs[0]):
        nodes.append(cast)
        probabilities = cast.inputs[0]
    guard = made_by(edit, probabilities, "Where")
    if guard is not None:
        condition, zero, probabilities = guard.inputs
        is_nan = made_by(edit, condition, "IsNaN")
        if is_nan is None or number(zero) != 0 or is_nan.inputs[0] is not probabilities:
            return None
        if not is_private(edit, condition) or not is_private(edit, probabilities, readers=2):
            return None
        nodes += [guard, is_nan]
    softmax = made_by(edit, probabilities, "Softmax")
    if softmax is None or not is_float(probabilities) or not is_private(edit, softmax.inputs[0]):
        return None
    axis = attribute(softmax, "axis", -1 if edit.scope.opset(softmax) >= 13 else 1)
    axes = rank(softmax.inputs[0])
    if axis is None or axes is None or axis not in (-1, axes - 1):
        return None
    nodes.append(softmax)
    before = softmax.inputs[0]
    widened = made_by(edit, before, "Cast") if cast is not None else None
    if widened is None:
        return before if cast is None else None
    if before is None or before.dtype != ir.DataType.FLOAT or not is_private(edit, widened.inputs[0]):
        return None
    nodes.append(widened)
    return widened.inputs[0]


def _scores(edit: Edit, value: ir.Value | None, nodes: list[ir.Node]) -> Scores | None:
    """The product of queries and keys behind `value`, with all scales collected."""
    value, scale = _without_scale(edit, value, nodes)
    product = made_by(edit, value, "MatMul")
    if product is None or not is_private(edit, value):
        return None
    nodes.append(product)
    q, of_q = _without_scale(edit, product.inputs[0], nodes)
    k, of_k = _without_scale(edit, product.inputs[1], nodes)
    return None if q is None or k is None else Scores(q, k, scale * of_q * of_k, nodes)


def _without_scale(edit: Edit, value: ir.Value | None, nodes: list[ir.Node]) -> tuple[ir.Value | None, float]:
    """`value` before it was multiplied by a number, and the number (1 if it was not)."""
    node = made_by(edit, value, "Mul", "Div")
    if node is None or not is_private(edit, value):
        return value, 1.0
    found = with_number(node) if node.op_type == "Mul" else divided_by_number(node)
    if found is None:
        return value, 1.0
    nodes.append(node)
    return found[0], found[1] if node.op_type == "Mul" else 1 / found[1]


def _transposed_back(edit: Edit, root: ir.Node, scores: Scores) -> ir.Value:
    """The keys as PyTorch wants them, (..., keys, features), with the scale of what was scaled before the transpose."""
    transposed = scores.k_transposed
    node = made_by(edit, transposed, "Transpose")
    order = None if node is None else permutation(node)
    if node is None or order is None or node.inputs[0] is None:
        axes = rank(transposed) or 0
        order, source = [*range(axes - 2), axes - 1, axes - 2], transposed
    else:
        scores.nodes.append(node)
        source = node.inputs[0]
        order = [*order[:-2], order[-1], order[-2]]
        if is_private(edit, transposed):
            source, scale = _without_scale(edit, source, scores.nodes)  # type: ignore[assignment]
            scores.scale *= scale
    if list(order) == list(range(len(order))):
        return source
    shape = known_shape(source)
    dims = [None] * len(order) if shape is None else [shape[axis] for axis in order]
    perm = [ir.AttrInt64s("perm", order)]
    return edit.insert(root, "Transpose", [source], perm, like=source, shape=dims, name=f"{source.name}_t")


def _scale(scores: Scores, v: ir.Value) -> list[ir.Attr]:
    """The scale, unless it is PyTorch's default."""
    features = (known_shape(scores.q) or (None,))[-1]
    if isinstance(features, int) and features > 0 and is_close(scores.scale, 1 / math.sqrt(features), v.dtype):
        return []
    return [ir.AttrFloat32("scale", scores.scale)]
