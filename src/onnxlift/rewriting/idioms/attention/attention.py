"""Scaled dot-product attention, spelled out, is one function.

    MatMul(Softmax(MatMul(q, k.T) * scale + mask), v)   ->   Attention(q, k, v, mask, scale=...)

q, k and v have the same number of axes, three or four. Each part may have several forms:

- scale: a Mul or Div by a number, on the scores, on q, on k or on several of them, also before a transpose. Without one
  the scale is 1.
- k.T: a Transpose. It may move other axes too: then k keeps that part of it. If there is none, k is transposed.
- mask: a value that is added to the scaled scores. `Where(m, 0, -inf)` that is added, and `Where(m, scores, -inf)`, are
  the boolean mask m. With a huge negative number instead of -inf, the mask is added as numbers, since a row without any
  key gives another result. A mask that hides exactly the keys after each query, a constant or a Trilu of ones, is
  `is_causal`. Two masks, one after the other, are one if parts/mask.py says so. A small number that is added to all
  scores alike is left out.
- `Where(IsNaN(p), 0, p)` around the softmax, PyTorch's way to give 0 where there is no key: its attention does that
  itself.
- a Dropout of the probabilities, with a constant ratio and without a seed: `dropout_p`, in train mode only.
- casts of the scores to float32 and of the result back, which PyTorch's attention does itself.
- masks for the windows of an image, see parts/windows.py.
- k and v that are repeated for several heads of q (Unsqueeze, Expand, Reshape): grouped queries, `enable_gqa`.

Not if the softmax goes over another axis, if another node or the caller reads the scores or the probabilities, or if
the mask would give the scores more axes. Sound because this is the definition of attention in PyTorch; the order of
roundings differs. If every key of a row is masked by -inf, PyTorch gives 0. So does a model with the guard for NaN;
without the guard it would give NaN. Scores that are NaN for another reason stay NaN in PyTorch, also where the guard
would have hidden them.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused
from onnxlift.ir.editing.near_misses import near_miss
from onnxlift.ir.graph.shapes import rank
from onnxlift.rewriting.idioms.attention.parts.grouped_heads import before_repetition
from onnxlift.rewriting.idioms.attention.parts.keys import Keys, find_keys, without_earlier_scale
from onnxlift.rewriting.idioms.attention.parts.scores import find_weights, is_usual_scale
from onnxlift.stages import step


@step(
    "attention",
    after={
        "turned-attention": "the weights are on the left by then",
        "flattened-heads": "the matrices have axes for batch and heads by then",
        "matrix-transpose": "the keys are turned by one transpose then",
        "relative-positions": "the bias that is added to the scores is computed from its table by then",
    },
)
def run(model: ir.Model) -> int:
    """Recognise attention; return how often."""
    transposes: set[ir.Node] = set()
    return sweep(
        model,
        {
            "MatMul": lambda edit, node: _visit(edit, node, transposes),
            "Transpose": lambda _, node: transposes.add(node),
        },
    )


def _visit(edit: Edit, node: ir.Node, transposes: set[ir.Node]) -> None:
    probabilities, v = node.inputs
    if rank(node.outputs[0]) not in (3, 4) or v is None:
        return
    nodes: list[ir.Node] = []
    weights = find_weights(edit, probabilities, nodes)
    if weights is None:
        return
    if not weights.fit(rank(v)) or rank(v) != rank(node.outputs[0]):
        near_miss(node, "queries, keys, values and mask do not have the same number of axes")
        return
    scores, mask = weights.scores, weights.scores.mask
    q, of_q = scores.q, without_earlier_scale(edit, scores.q)
    keys: Keys = find_keys(edit, node, scores.k_transposed, transposes)
    k, scale = keys.value, scores.scale * of_q * keys.scale
    attributes = [] if is_usual_scale(q, scale) else [ir.AttrFloat32("scale", scale)]
    nodes += keys.nodes
    grouped = before_repetition(edit, q, k, v)
    if grouped is not None:
        k, v, repetition = grouped
        nodes += repetition
        attributes.append(ir.AttrInt64("enable_gqa", 1))
    attributes += weights.dropout
    if mask.is_causal:
        attributes.append(ir.AttrInt64("is_causal", 1))
    added = mask.value(edit, node, q)
    edit.replace(node, "Attention", [q, k, v] if added is None else [q, k, v, added], attributes, domain=DOMAIN)
    drop_unused(edit, nodes)
