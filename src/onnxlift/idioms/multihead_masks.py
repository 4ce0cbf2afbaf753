"""The masks of an attention as `nn.MultiheadAttention` takes them: one by queries and keys, one by batches and keys.

    (queries, keys), or (batch * heads, queries, keys)       ->  attn_mask
    Unsqueeze(p), of (batch, 1, 1, keys)                     ->  key_padding_mask = p
    Reshape(Expand(Unsqueeze(p))), of (batch * heads, 1, keys)  ->  the same
    Add(m, Reshape(Expand(Unsqueeze(p))))                    ->  both, as the layer itself joins them for all heads
    Where(hidden, -inf, 0), or Not(hidden), of any of these  ->  hidden: true where a score does not count

Where the attention has batch and heads in two axes, what is above may have got these by a Reshape.

Not if a mask has other axes, or if the layer would have to compute it: what a node of the layer's own module makes is
no argument of its call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from ..ir.node_view import shape_of
from ..ir.scopes import constant
from ..ir.symbolic import product
from ..passes.common_subexpressions import module_of
from ..passes.edit import Edit
from .match import made_by, number, rank

_LARGEST = 1 << 20


@dataclass(frozen=True)
class Masks:
    """What a layer is called with; `inverted` if a boolean mask says which scores count."""

    by_query: ir.Value | None
    padding: ir.Value | None
    inverted: bool


def find_masks(edit: Edit, attention: ir.Node, heads: int, module: str) -> Masks | None:
    """The masks of an attention in this module, none, one or both; None if it has another that no layer takes."""
    by_query, padding = _parts(edit, attention.inputs[3] if len(attention.inputs) > 3 else None, heads)
    if by_query is not None and rank(by_query) != 2 and not _is_by_head(by_query, attention, heads):
        return None
    (by_query, first), (padding, second) = _hidden(edit, by_query), _hidden(edit, padding)
    if any(_is_made_in(module, value) for value in (by_query, padding)) or (first and padding is not None):
        return None
    return Masks(by_query, padding, first or second)


def _parts(edit: Edit, mask: ir.Value | None, heads: int) -> tuple[ir.Value | None, ir.Value | None]:
    """The mask by queries and keys, and the one by batches and keys."""
    padding = _padding(edit, mask)
    if padding is not None:
        return None, padding
    split = made_by(edit, mask, "Reshape")
    if split is not None and rank(mask) == 4 and rank(split.inputs[0]) == 3:
        mask = split.inputs[0]
    padding = _for_all_heads(edit, mask, heads)
    if padding is not None:
        return None, padding
    total = made_by(edit, mask, "Add")
    if total is not None:
        by_query, joined = total.inputs
        padding = _for_all_heads(edit, joined, heads) if rank(by_query) == 2 else None
        if padding is not None:
            return by_query, padding
    return mask, None


def _for_all_heads(edit: Edit, mask: ir.Value | None, heads: int) -> ir.Value | None:
    """The mask by batches and keys that is the same for all heads and queries."""
    rows = made_by(edit, mask, "Reshape")
    expanded = None if rows is None else made_by(edit, rows.inputs[0], "Expand")
    padding = None if expanded is None else _padding(edit, expanded.inputs[0])
    shape = shape_of(padding)
    if expanded is None or shape is None or shape_of(expanded.outputs[0]) != (shape[0], heads, 1, shape[1]):
        return None
    return padding if (shape_of(mask) or ())[1:] == (1, shape[1]) else None


def _is_by_head(mask: ir.Value, attention: ir.Node, heads: int) -> bool:
    """Whether a mask of three axes has a row for each batch, head, query and key."""
    shape, of_q, of_k = shape_of(mask), shape_of(attention.inputs[0]), shape_of(attention.inputs[1])
    if shape is None or of_q is None or of_k is None or len(shape) != 3:
        return False
    batch = of_q[0] if len(of_q) == 3 else product((of_q[0], heads))
    return shape == (batch, of_q[-2], of_k[-2])


def _padding(edit: Edit, mask: ir.Value | None) -> ir.Value | None:
    """The mask by batches and keys that has got two axes in between."""
    shape = shape_of(mask)
    if shape is None or len(shape) != 4 or shape[1:3] != (1, 1):
        return None
    new = made_by(edit, mask, "Unsqueeze", "Reshape")
    source = None if new is None else new.inputs[0]
    return source if shape_of(source) == (shape[0], shape[3]) else None


def _hidden(edit: Edit, mask: ir.Value | None) -> tuple[ir.Value | None, bool]:
    """The mask as the layer takes it, numbers to add or true where a score does not count; and whether it is still to
    be inverted for that."""
    inverted, choice = made_by(edit, mask, "Not"), made_by(edit, mask, "Where")
    if inverted is not None:
        return inverted.inputs[0], False
    if choice is not None and shape_of(choice.inputs[0]) == shape_of(mask) is not None:
        hidden, then, otherwise = choice.inputs
        if number(then) == -math.inf and (number(otherwise) == 0 or _is_zero(otherwise)):
            return hidden, False
    return mask, mask is not None and mask.dtype == ir.DataType.BOOL


def _is_zero(value: ir.Value | None) -> bool:
    tensor = constant(value)
    return tensor is not None and tensor.size <= _LARGEST and not tensor.numpy().any()


def _is_made_in(module: str, value: ir.Value | None) -> bool:
    producer = None if value is None else value.producer()
    return producer is not None and module_of(producer) == module != ""
