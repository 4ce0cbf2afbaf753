"""Follow the weights of an attention, `dropout(softmax(q @ k.T * scale + mask))`, back to queries and keys."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import is_private, made_by
from onnxlift.ir.editing.near_misses import near_miss
from onnxlift.ir.graph.constants import number
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import rank, shape_of, static_elements
from onnxlift.ir.graph.types import is_close

from .keys import without_scale
from .mask import Mask, find_mask


@dataclass(frozen=True)
class Scores:
    """The scores of an attention: queries, transposed keys, scale and mask.

    The scale is the product of all numbers that queries, keys or their product are multiplied by.
    """

    q: ir.Value
    k_transposed: ir.Value
    scale: float
    mask: Mask


@dataclass(frozen=True)
class AttentionWeights:
    """The softmax of scores, and the attributes of its dropout in training."""

    scores: Scores
    dropout: list[ir.Attr]

    def fit(self, axes: int | None) -> bool:
        """Tell whether queries, keys and mask go with values of so many axes."""
        return rank(self.scores.q) == rank(self.scores.k_transposed) == axes and self.scores.mask.fits()


def find_weights(edit: Edit, probabilities: ir.Value | None, nodes: list[ir.Node]) -> AttentionWeights | None:
    """Return the weights of an attention that `probabilities` are; append the nodes that compute them to `nodes`."""
    probabilities, dropout = _before_dropout(edit, probabilities, nodes)
    masked = _before_softmax(edit, probabilities, nodes)
    scores = None if masked is None else find_scores(edit, masked, nodes)
    return None if scores is None else AttentionWeights(scores, dropout)


def softmax_of_scores(edit: Edit, probabilities: ir.Value | None) -> ir.Node | None:
    """Return the softmax over the last axis that makes `probabilities`, if nobody else reads its input."""
    softmax = made_by(edit, probabilities, "Softmax")
    if softmax is None:
        return None
    axis = attribute(softmax, "axis", -1 if edit.opset(softmax) >= 13 else 1)
    axes = rank(softmax.inputs[0])
    if axis is None or axes is None or axis not in (-1, axes - 1) or not is_private(edit, softmax.inputs[0]):
        near_miss(softmax, "the softmax is not over the last axis, or others read the scores")
        return None
    return softmax


def find_scores(edit: Edit, masked: ir.Value, nodes: list[ir.Node]) -> Scores | None:
    """Return the scores in `masked`, the input of the softmax; append the nodes that compute them to `nodes`."""
    mask = find_mask(edit, masked, nodes)
    scores, scale = without_scale(edit, mask.scores, nodes)
    product = made_by(edit, scores, "MatMul")
    if product is None:
        return None
    if not is_private(edit, scores):
        near_miss(product, "others read the scores")
        return None
    nodes.append(product)
    q, of_q = without_scale(edit, product.inputs[0], nodes)
    k_transposed, of_k = without_scale(edit, product.inputs[1], nodes)
    if q is None or k_transposed is None:
        return None
    return Scores(q, k_transposed, scale * of_q * of_k, mask)


def is_usual_scale(q: ir.Value, scale: float) -> bool:
    """Tell whether the scale is PyTorch's default for these queries."""
    shape = shape_of(q)
    features = None if shape is None else shape[-1]
    return isinstance(features, int) and features > 0 and is_close(scale, 1 / math.sqrt(features), q.dtype)


def _before_dropout(
    edit: Edit, probabilities: ir.Value | None, nodes: list[ir.Node]
) -> tuple[ir.Value | None, list[ir.Attr]]:
    """Return the input of the Dropout that makes `probabilities`, and its attributes; else `probabilities` and none."""
    dropout = made_by(edit, probabilities, "Dropout")
    if dropout is None or not is_private(edit, probabilities) or "seed" in dropout.attributes:
        return probabilities, []
    ratio, training, *_ = *dropout.inputs[1:], None, None
    share = attribute(dropout, "ratio", 0.5) if ratio is None else number(ratio)
    until_told = edit.opset(dropout) < 7 and not attribute(dropout, "is_test", 0)
    trains = (until_told,) if training is None else static_elements(training)
    mask_is_read = any(output.uses() or output.is_graph_output() for output in dropout.outputs[1:])
    if share is None or not 0 < share < 1 or trains is None or mask_is_read:
        return probabilities, []
    nodes.append(dropout)
    return dropout.inputs[0], [ir.AttrFloat32("dropout", share), ir.AttrInt64("trains", int(any(trains)))]


def _before_softmax(edit: Edit, probabilities: ir.Value | None, nodes: list[ir.Node]) -> ir.Value | None:
    """Return the input of the softmax over the last axis that makes `probabilities`, if nobody else reads these."""
    if not is_private(edit, probabilities):
        if (softmax := made_by(edit, probabilities, "Softmax")) is not None:
            near_miss(softmax, "others read the probabilities")
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
        near_miss(narrowed, "the softmax is not computed in float32 of scores in half precision")
        return None
    nodes.append(widened)
    return widened.inputs[0]


def _is_half_in_float(widened: ir.Node, narrowed: ir.Node) -> bool:
    """Tell whether the two casts go from half precision to float32 and back."""
    inner = widened.outputs[0].dtype
    outer = {value.dtype for value in (widened.inputs[0], narrowed.outputs[0]) if value is not None}
    return inner == ir.DataType.FLOAT and outer in ({ir.DataType.FLOAT16}, {ir.DataType.BFLOAT16})
