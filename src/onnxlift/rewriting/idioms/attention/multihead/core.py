"""The attention between the projections of an `nn.MultiheadAttention`, and the weights that the layer returns.

    Attention(q, k, v, mask)                                    what the idiom `attention` has found
    p = Softmax(q @ k.T * scale + mask), MatMul(p, v)           if another node reads p; that idiom leaves it alone

In the second form, the layer returns weights besides its result (`need_weights=True`): p with batches and heads in two
axes, or its mean over the heads (`average_attn_weights`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import is_private
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.nodes import attribute, is_lifted, is_standard
from onnxlift.rewriting.idioms.attention.parts.scores import find_scores, is_usual_scale, softmax_of_scores
from onnxlift.rewriting.idioms.parts.moved_axes import MOVES, Axis, Moved

_OPTIONS = frozenset({"is_causal", "dropout", "trains"})
_MAX_STEPS = 6


@dataclass(frozen=True)
class Core:
    """The attention that `node` ends: its inputs, and the probabilities if others read them."""

    node: ir.Node
    q: ir.Value
    k: ir.Value
    v: ir.Value
    has_keys_turned: bool = False
    """True if the features of the keys come before their positions."""
    mask: ir.Value | None = None
    hides: bool = False
    """True if a true in a boolean mask means that the score does not count; else it means that it counts."""
    is_causal: bool = False
    dropout: ir.Attr | None = None
    probabilities: ir.Value | None = None


def find_core(edit: Edit, node: ir.Node) -> Core | None:
    """Return the attention that ends with this node, if it has PyTorch's scale.

    Not in half precision: we compute that in float32 (ops/standard/layers/attention.py), which the layer does not do.
    """
    if node.outputs[0].dtype == ir.DataType.FLOAT16:
        return None
    if is_lifted(node, "Attention"):
        return _recognised(node)
    return _with_weights(edit, node) if is_standard(node, "MatMul") else None


def _recognised(node: ir.Node) -> Core | None:
    if not node.attributes.keys() <= _OPTIONS or attribute(node, "trains", 0):
        return None
    q, k, v, mask = (*node.inputs, None)[:4]
    if q is None or k is None or v is None:
        return None
    is_causal = bool(attribute(node, "is_causal", 0))
    return Core(node, q, k, v, mask=mask, is_causal=is_causal, dropout=node.attributes.get("dropout"))


def _with_weights(edit: Edit, node: ir.Node) -> Core | None:
    probabilities, v = node.inputs
    softmax = softmax_of_scores(edit, probabilities)
    if softmax is None or softmax.inputs[0] is None or v is None or is_private(edit, probabilities):
        return None
    scores = find_scores(edit, softmax.inputs[0], [])
    if scores is None or not is_usual_scale(scores.q, scores.scale):
        return None
    mask = scores.mask
    if mask.windows is not None or mask.earlier is not None or (mask.kept is not None and mask.filled != -math.inf):
        return None
    return Core(
        node,
        scores.q,
        scores.k_transposed,
        v,
        has_keys_turned=True,
        mask=None if mask.is_causal else mask.given,
        hides=mask.inverted,
        is_causal=mask.is_causal,
        probabilities=probabilities,
    )


@dataclass(frozen=True)
class Returned:
    """The weights that a layer returns: the node that makes them, and whether they are the mean over all heads."""

    node: ir.Node
    is_averaged: bool

    @property
    def value(self) -> ir.Value:
        return self.node.outputs[0]


def find_returned(edit: Edit, core: Core, moved: Moved, axes: Sequence[Axis]) -> Returned | None:
    """Return the last value after the probabilities that has these axes: the weights that the layer returns.

    It is the mean over the heads, or has an axis for the heads before the last two. `moved` are the probabilities'
    axes.
    """
    found: Returned | None = None
    node = None if core.probabilities is None else core.probabilities.producer()
    by_head = (*axes[:-2], ("head",), *axes[-2:])
    after: Moved | None = moved
    for _ in range(_MAX_STEPS):
        if node is None or after is None:
            break
        moved = after
        if moved.is_at(axes) and "head" not in moved.taken:
            found = Returned(node, is_averaged=True)
        elif moved.is_at(by_head):
            found = Returned(node, is_averaged=False)
        node = _other_reader(edit, node.outputs[0], core.node)
        if node is not None:
            after = _mean(moved, node) if node.op_type == "ReduceMean" else moved.after([node], node.outputs[0])
    return found


def _other_reader(edit: Edit, value: ir.Value, core: ir.Node) -> ir.Node | None:
    """Return the only node besides the attention itself that reads a value, if it moves elements or takes a mean."""
    readers = [user for user, _ in value.uses() if user is not core]
    if edit.is_output(value) or len(readers) != 1 or readers[0].graph is not edit.graph:
        return None
    return readers[0] if is_standard(readers[0], "ReduceMean", *MOVES) else None


def _mean(moved: Moved, node: ir.Node) -> Moved | None:
    """Return the axes of the probabilities after a mean over one of them, perhaps the heads."""
    axes = axes_of(node)
    if axes is None or len(axes) != 1 or attribute(node, "keepdims", 1) != 0:
        return None
    left = list(moved.axes)
    del left[axes[0]]
    return replace(moved, axes=tuple(left))
