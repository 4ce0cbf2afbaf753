"""Rotary position embedding, spelled out.

    Add(Mul(x, cos), Mul(Concat(Neg(second), first), sin))   ->   Rotary(x, cos, sin)

with `first` and `second` the halves of x along its last axis (two Slices, or the two outputs of a Split). The operands
of Add and Mul may come in either order. Not if x has no even number of features, if the Concat joins other parts or
another axis, or if somebody else reads a value in between. Sound because the kernel computes the same terms in the same
order, whatever cos and sin are.
"""

from __future__ import annotations

import onnx_ir as ir

from ..ir.node_view import shape_of
from ..passes.edit import Edit, attribute, is_standard, sweep
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
            found = _turned(edit, halves)
            if found is None:
                continue
            x, nodes = found
            for value, cos in both_orders(by_cos):
                if value is x:
                    edit.replace(node, "Rotary", [x, cos, sin], domain=DOMAIN)
                    drop_unused(edit, [by_cos, by_sin, *nodes])
                    return


def _turned(edit: Edit, value: ir.Value) -> tuple[ir.Value, list[ir.Node]] | None:
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
    return halves[0], [concat, negation, *(part for part in parts if part is not None)]


def _half(edit: Edit, value: ir.Value | None, which: int) -> ir.Value | None:
    """x, if `value` is the first (0) or second (1) half of its last axis, read here only."""
    half = piece(edit, value) if is_private(edit, value) else None
    if half is None or half.axis != len(shape_of(half.x) or ()) - 1 or 2 * half.length != half.size:
        return None
    return half.x if half.start == which * half.length else None
