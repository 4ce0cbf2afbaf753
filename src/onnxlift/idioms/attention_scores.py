"""The scores of an attention, from the softmax back to the queries and keys: `softmax(q @ k.T * scale + mask)`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from ..ir.node_view import shape_of
from ..passes.edit import Edit, attribute
from .attention_keys import without_scale
from .attention_mask import Mask, find_mask
from .match import is_close, is_float, is_private, made_by, rank


@dataclass(frozen=True)
class Scores:
    """What scores are made of: queries, transposed keys, all numbers that either or their product is multiplied by, and
    what masks them."""

    q: ir.Value
    k_transposed: ir.Value
    scale: float
    mask: Mask


def softmax_of_scores(edit: Edit, probabilities: ir.Value | None) -> ir.Node | None:
    """The softmax over the last axis that makes `probabilities`, if nobody else reads its input."""
    softmax = made_by(edit, probabilities, "Softmax")
    if softmax is None or not is_float(probabilities):
        return None
    axis = attribute(softmax, "axis", -1 if edit.scope.opset(softmax) >= 13 else 1)
    axes = rank(softmax.inputs[0])
    if axis is None or axes is None or axis not in (-1, axes - 1) or not is_private(edit, softmax.inputs[0]):
        return None
    return softmax


def find_scores(edit: Edit, masked: ir.Value, nodes: list[ir.Node]) -> Scores | None:
    """The scores in `masked`, which goes into the softmax; the nodes that compute them are appended to `nodes`."""
    mask = find_mask(edit, masked, nodes)
    scores, scale = without_scale(edit, mask.scores, nodes)
    product = made_by(edit, scores, "MatMul")
    if product is None or not is_private(edit, scores):
        return None
    nodes.append(product)
    q, of_q = without_scale(edit, product.inputs[0], nodes)
    k_transposed, of_k = without_scale(edit, product.inputs[1], nodes)
    if q is None or k_transposed is None:
        return None
    return Scores(q, k_transposed, scale * of_q * of_k, mask)


def is_usual_scale(q: ir.Value, scale: float) -> bool:
    """Whether the scale is PyTorch's default for these queries."""
    features = (shape_of(q) or (None,))[-1]
    return isinstance(features, int) and features > 0 and is_close(scale, 1 / math.sqrt(features), q.dtype)
