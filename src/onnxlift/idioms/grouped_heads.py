"""Keys and values that several heads of queries share (grouped-query attention), repeated for each of them.

    Reshape(Expand(Unsqueeze(k, 2), (b, g, n, s, d)), (b, g * n, s, d))   is   k.repeat_interleave(n, 1)

which PyTorch's attention does itself with `enable_gqa=True`. Both keys and values must be repeated so, and give as many
heads as the queries have.
"""

from __future__ import annotations

import onnx_ir as ir

from ..ir.node_view import shape_of, static_elements
from ..passes.edit import Edit, attribute
from .match import made_by


def before_repetition(
    edit: Edit, q: ir.Value, k: ir.Value, v: ir.Value
) -> tuple[ir.Value, ir.Value, list[ir.Node]] | None:
    """The keys and values before they were repeated, and the nodes that did that; None unless both were."""
    keys, values = _unrepeated(edit, k), _unrepeated(edit, v)
    if keys is None or values is None:
        return None
    heads = [(shape_of(value) or (None, None))[1] for value in (q, k, v)]
    groups = [(shape_of(source) or (None, None))[1] for source in (keys[0], values[0])]
    if len(set(heads)) != 1 or len(set(groups)) != 1:
        return None
    return keys[0], values[0], [*keys[1], *values[1]]


def _unrepeated(edit: Edit, value: ir.Value) -> tuple[ir.Value, list[ir.Node]] | None:
    reshape = made_by(edit, value, "Reshape")
    expand = made_by(edit, reshape.inputs[0], "Expand") if reshape is not None else None
    unsqueeze = made_by(edit, expand.inputs[0], "Unsqueeze") if expand is not None else None
    if reshape is None or expand is None or unsqueeze is None:
        return None
    source = unsqueeze.inputs[0]
    axes = static_elements(unsqueeze.inputs[1]) if len(unsqueeze.inputs) > 1 else attribute(unsqueeze, "axes", ())
    shape, wide, merged = shape_of(source), shape_of(expand.outputs[0]), shape_of(value)
    if source is None or shape is None or wide is None or merged is None or len(shape) != 4 or len(wide) != 5:
        return None
    batch, groups, length, features = shape
    repeats = wide[2]
    if list(axes or ()) != [2] or not isinstance(groups, int) or not isinstance(repeats, int):
        return None
    if wide != (batch, groups, repeats, length, features) or merged != (batch, groups * repeats, length, features):
        return None
    return source, [reshape, expand, unsqueeze]
