"""Scaled dot-product attention, spelled out.

    MatMul(Softmax(MatMul(q, k.T) * scale + mask), v)   ->   Attention(q, k, v, mask, scale=...)

q, k and v have the same number of axes, three or four. The forms of each part:

- scale: a Mul or Div by a number, on the scores, on q, on k or on several of them, also before a transpose; without
  one the scale is 1
- k.T: a Transpose (which may do more: then k keeps the rest of it); anything else is transposed for the purpose
- mask: added to the scaled scores; `Where(m, 0, -inf)` added to them, or `Where(m, scores, -inf)`, is the boolean mask
  m; with a huge negative number in the place of -inf it is added, since then a row without any key is not the same;
  a mask that hides exactly what lies after each query, a constant or a Trilu of ones, is `is_causal`
  a number that is added to all scores alike is left out
- `Where(IsNaN(p), 0, p)` around the softmax, PyTorch's spelling of "no key, no value": its attention does that itself
- a Dropout of the probabilities, with a constant ratio and without a seed: `dropout_p`, in train mode only
- casts of the scores to float32 and of the result back, which PyTorch's attention does itself
- what `attention_windows.py` says of masks for the windows of an image
- k and v repeated for several heads of q (Unsqueeze, Expand, Reshape): grouped queries, `enable_gqa`

Not if the softmax goes over another axis, if another node or the caller reads the scores or the probabilities, or if
the mask would give the scores more axes. Sound because this is the definition of attention in PyTorch; the order of
roundings differs. Where every key of a row is masked by -inf, PyTorch gives 0, and so does the model with the guard
for NaN; without it the row would not be numbers at all. Scores that are NaN for another reason stay so in PyTorch, also
where the guard would have hidden them.
"""

from __future__ import annotations

import onnx_ir as ir

from ..ir.node_view import static_elements
from ..passes.edit import Edit, attribute, is_standard, sweep
from .attention_keys import Keys, find_keys, find_queries
from .attention_scores import find_scores, is_usual_scale, softmax_of_scores
from .grouped_heads import before_repetition
from .match import DOMAIN, drop_unused, is_private, made_by, number, rank


def run(model: ir.Model) -> int:
    """Recognise attention; gives how often."""
    transposes: set[ir.Node] = set()

    def visit(edit: Edit, node: ir.Node) -> None:
        if is_standard(node, "MatMul"):
            _visit(edit, node, transposes)
        elif is_standard(node, "Transpose"):
            transposes.add(node)

    return sweep(model, visit)


def _visit(edit: Edit, node: ir.Node, transposes: set[ir.Node]) -> None:
    probabilities, v = node.inputs
    if rank(node.outputs[0]) not in (3, 4) or v is None:
        return
    nodes: list[ir.Node] = []
    probabilities, dropout = _before_dropout(edit, probabilities, nodes)
    masked = _before_softmax(edit, probabilities, nodes)
    scores = None if masked is None else find_scores(edit, masked, nodes)
    if scores is None or not scores.mask.fits(rank(v)):
        return
    q, mask = scores.q, scores.mask
    if not rank(q) == rank(scores.k_transposed) == rank(v) == rank(node.outputs[0]):
        return
    q, of_q = find_queries(edit, node, q, transposes, nodes)
    keys: Keys = find_keys(edit, node, scores.k_transposed, transposes)
    k, scale = keys.value, scores.scale * of_q * keys.scale
    attributes = [] if is_usual_scale(q, scale) else [ir.AttrFloat32("scale", scale)]
    nodes += keys.nodes
    grouped = before_repetition(edit, q, k, v)
    if grouped is not None:
        k, v, repetition = grouped
        nodes += repetition
        attributes.append(ir.AttrInt64("enable_gqa", 1))
    attributes += dropout
    if mask.is_causal:
        attributes.append(ir.AttrInt64("is_causal", 1))
    added = mask.value(edit, node, q)
    edit.replace(node, "Attention", [q, k, v] if added is None else [q, k, v, added], attributes, domain=DOMAIN)
    drop_unused(edit, nodes)


def _before_dropout(
    edit: Edit, probabilities: ir.Value | None, nodes: list[ir.Node]
) -> tuple[ir.Value | None, list[ir.Attr]]:
    """What goes into the Dropout that `probabilities` come from, and how it drops; else `probabilities` themselves."""
    dropout = made_by(edit, probabilities, "Dropout")
    if dropout is None or not is_private(edit, probabilities) or "seed" in dropout.attributes:
        return probabilities, []
    ratio, training, *_ = *dropout.inputs[1:], None, None
    share = attribute(dropout, "ratio", 0.5) if ratio is None else number(ratio)
    until_told = edit.scope.opset(dropout) < 7 and not attribute(dropout, "is_test", 0)
    trains = (until_told,) if training is None else static_elements(training)
    mask_is_read = any(output.uses() or output.is_graph_output() for output in dropout.outputs[1:])
    if share is None or not 0 < share < 1 or trains is None or mask_is_read:
        return probabilities, []
    nodes.append(dropout)
    return dropout.inputs[0], [ir.AttrFloat32("dropout", share), ir.AttrInt64("trains", int(any(trains)))]


def _before_softmax(edit: Edit, probabilities: ir.Value | None, nodes: list[ir.Node]) -> ir.Value | None:
    """What goes into the softmax over the last axis that `probabilities` come from, if nobody else reads those."""
    if not is_private(edit, probabilities):
        return None
    narrowed = made_by(edit, probabilities, "Cast")
    if narrowed is not None:
        nodes.append(narrowed)
        probabilities = narrowed.inputs[0]
    guard = made_by(edit, probabilities, "Where")
    readers = 1
    if guard is not None:
        if not is_private(edit, probabilities):
            return None
        condition, zero, probabilities = guard.inputs
        is_nan = made_by(edit, condition, "IsNaN")
        if (
            is_nan is None
            or number(zero) != 0
            or is_nan.inputs[0] is not probabilities
            or not is_private(edit, condition)
        ):
            return None
        nodes += [guard, is_nan]
        readers = 2
    softmax = softmax_of_scores(edit, probabilities)
    if softmax is None or not is_private(edit, probabilities, readers):
        return None
    nodes.append(softmax)
    if narrowed is None:
        return softmax.inputs[0]
    widened = made_by(edit, softmax.inputs[0], "Cast")
    if widened is None or not _is_half_in_float(widened, narrowed) or not is_private(edit, widened.inputs[0]):
        return None
    nodes.append(widened)
    return widened.inputs[0]


def _is_half_in_float(widened: ir.Node, narrowed: ir.Node) -> bool:
    """Whether the two casts go from half precision to float32 and back."""
    inner = widened.outputs[0].dtype
    outer = {value.dtype for value in (widened.inputs[0], narrowed.outputs[0]) if value is not None}
    return inner == ir.DataType.FLOAT and outer in ({ir.DataType.FLOAT16}, {ir.DataType.BFLOAT16})
