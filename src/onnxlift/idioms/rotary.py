"""Rotary position embedding, spelled out.

    Add(Mul(x, cos), Mul(Concat(Neg(second), first), sin))   ->   Rotary(x, cos, sin)
    Add(Mul(x, cos), Mul(pairs, sin))                        ->   Rotary(x, cos, sin, interleaved=1)

with `first` and `second` the halves of x along its last axis (two Slices, or the two outputs of a Split). In `pairs`
each feature with an even number has changed places with the one after it, which is negated: they are `-x[..., 1::2]`
and `x[..., ::2]`, each with a new last axis, joined along that, and made the shape of x again. The operands of Add and
Mul may come in either order. Not if x has no even number of features, if the Concat joins other parts or another axis,
or if somebody else reads a value in between. Sound because the kernels compute the same terms in the same order,
whatever cos and sin are.
"""

from __future__ import annotations

import onnx_ir as ir

from ..ir.node_view import shape_of, static_slice
from ..passes.edit import Edit, attribute, axes_of, is_standard, sweep
from .match import DOMAIN, both_orders, drop_unused, is_private, made_by
from .pieces import piece


def run(model: ir.Model) -> int:
    """Recognise rotary embeddings; gives how often."""
    return sweep(model, _visit)


def _visit(edit: Edit, node: ir.Node) -> None:
    if not is_standard(node, "Add"):
        return
    for straight, turned in both_orders(node):
        by_cos, by_sin = made_by(edit, straight, "Mul"), made_by(edit, turned, "Mul")
        if by_cos is None or by_sin is None or not (is_private(edit, straight) and is_private(edit, turned)):
            continue
        for halves, sin in both_orders(by_sin):
            found = _turned(edit, halves) or _turned_pairs(edit, halves)
            if found is None:
                continue
            x, nodes, options = found
            for value, cos in both_orders(by_cos):
                if value is x:
                    edit.replace(node, "Rotary", [x, cos, sin], options, domain=DOMAIN)
                    drop_unused(edit, [by_cos, by_sin, *nodes])
                    return


Turned = tuple[ir.Value, list[ir.Node], list[ir.Attr]]


def _turned(edit: Edit, value: ir.Value) -> Turned | None:
    """x, and the nodes in between, if `value` is its second half, negated, and then its first."""
    concat = made_by(edit, value, "Concat")
    axes = len(shape_of(value) or ())
    if concat is None or len(concat.inputs) != 2 or attribute(concat, "axis", None) not in (-1, axes - 1):
        return None
    negated, first = concat.inputs
    negation = made_by(edit, negated, "Neg")
    if negation is None or not all(is_private(edit, part) for part in (value, negated)):
        return None
    halves = [_half(edit, first, 0), _half(edit, negation.inputs[0], 1)]
    if halves[0] is None or halves[0] != halves[1]:
        return None
    parts = [part.producer() for part in (negation.inputs[0], first) if part is not None]
    return halves[0], [concat, negation, *(part for part in parts if part is not None)], []


def _turned_pairs(edit: Edit, value: ir.Value) -> Turned | None:
    """x, and the nodes in between, if `value` has its neighbours exchanged, the first of each two negated."""
    flat = made_by(edit, value, "Reshape", "Flatten")
    concat = made_by(edit, flat.inputs[0], "Concat") if flat is not None else None
    axes = len(shape_of(value) or ())
    if flat is None or concat is None or len(concat.inputs) != 2 or attribute(concat, "axis", None) not in (-1, axes):
        return None
    columns = [made_by(edit, part, "Unsqueeze") for part in concat.inputs]
    new = [column for column in columns if column is not None and axes_of(column) in ((-1,), (axes,))]
    negation = made_by(edit, new[0].inputs[0], "Neg") if len(new) == 2 else None
    if negation is None:
        return None
    odd, even = negation.inputs[0], new[1].inputs[0]
    between = (value, flat.inputs[0], *concat.inputs, new[0].inputs[0])
    x = _every_other(edit, even, 0)
    if x is None or x is not _every_other(edit, odd, 1) or not all(is_private(edit, each) for each in between):
        return None
    if shape_of(value) != shape_of(x):
        return None
    cuts = [part.producer() for part in (odd, even) if part is not None]
    nodes = [flat, concat, *new, negation, *(cut for cut in cuts if cut is not None)]
    return x, nodes, [ir.AttrInt64("interleaved", 1)]


def _every_other(edit: Edit, value: ir.Value | None, start: int) -> ir.Value | None:
    """x, if `value` is `x[..., start::2]` and x has an even number of features."""
    cut = made_by(edit, value, "Slice")
    x = None if cut is None else cut.inputs[0]
    shape, part = shape_of(x), shape_of(value)
    if cut is None or not shape or not part or not isinstance(shape[-1], int) or shape[-1] % 2:
        return None
    found = static_slice(cut)
    if found not in (((start,), (len(shape) - 1,), (2,)), ((start,), (-1,), (2,))) or part[-1] != shape[-1] // 2:
        return None
    return x


def _half(edit: Edit, value: ir.Value | None, which: int) -> ir.Value | None:
    """x, if `value` is the first (0) or second (1) half of its last axis, read here only."""
    half = piece(edit, value) if is_private(edit, value) else None
    if half is None or half.axis != len(shape_of(half.x) or ()) - 1 or 2 * half.length != half.size:
        return None
    return half.x if half.start == which * half.length else None
