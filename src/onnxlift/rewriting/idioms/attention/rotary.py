"""Rotary position embedding, spelled out, is one function.

    Add(Mul(x, cos), Mul(Concat(Neg(second), first), sin))   ->   Rotary(x, cos, sin)
    Add(Mul(x, cos), Mul(pairs, sin))                        ->   Rotary(x, cos, sin, interleaved=1)

`first` and `second` are the halves of x along its last axis: two Slices, or the two outputs of a Split. In `pairs` each
feature with an even number has changed places with the one after it, which is negated: `-x[..., 1::2]` and `x[...,
::2]` each get a new last axis, are joined along it, and get the shape of x again. The operands of Add and Mul may have
either order. Not if x has an odd number of features, if the Concat joins other parts or another axis, or if another
node reads a value in between. Sound because the kernels compute the same terms in the same order, whatever cos and sin
are.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, both_orders, drop_unused, is_private, made_by
from onnxlift.ir.editing.near_misses import near_miss
from onnxlift.ir.graph.axes import axes_of, static_slice
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import rank, same_shape
from onnxlift.rewriting.idioms.parts.pieces import piece
from onnxlift.stages import step


@step("rotary")
def run(model: ir.Model) -> int:
    """Recognise rotary embeddings; return how often."""
    return sweep(model, {"Add": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
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
            near_miss(node, "what is multiplied by the cosines is not what is turned")


Turned = tuple[ir.Value, list[ir.Node], list[ir.Attr]]


def _turned(edit: Edit, value: ir.Value) -> Turned | None:
    """Return x and the nodes in between, if `value` is the second half of x, negated, and then the first half."""
    concat = made_by(edit, value, "Concat")
    if concat is None or len(concat.inputs) != 2 or not is_private(edit, value):
        return None
    negated, first = concat.inputs
    negation = made_by(edit, negated, "Neg")
    if negation is None or not is_private(edit, negated):
        return None
    second = negation.inputs[0]
    x = _half(edit, first, 0)
    if x is None or x is not _half(edit, second, 1) or not _is_last(attribute(concat, "axis", None), x):
        near_miss(concat, "what is joined is not the second half of the last axis, negated, and the first half")
        return None
    parts = [part.producer() for part in (second, first) if part is not None]
    return x, [concat, negation, *(part for part in parts if part is not None)], []


def _turned_pairs(edit: Edit, value: ir.Value) -> Turned | None:
    """Return x and the nodes in between, if `value` is x with neighbours exchanged, the first of each pair negated."""
    flat = made_by(edit, value, "Reshape", "Flatten")
    concat = made_by(edit, flat.inputs[0], "Concat") if flat is not None else None
    if flat is None or concat is None or len(concat.inputs) != 2:
        return None
    left, right = (made_by(edit, part, "Unsqueeze") for part in concat.inputs)
    negation = made_by(edit, left.inputs[0], "Neg") if left is not None else None
    if left is None or right is None or negation is None:
        return None
    odd, even = negation.inputs[0], right.inputs[0]
    between = (value, flat.inputs[0], *concat.inputs, left.inputs[0])
    x = _every_other(edit, even, 0)
    if x is None or x is not _every_other(edit, odd, 1) or not all(is_private(edit, each) for each in between):
        near_miss(flat, "the neighbours are not those of one value, or others read them on the way")
        return None
    new = [(attribute(concat, "axis", None),), axes_of(left), axes_of(right)]
    if any(axes not in ((-1,), (rank(x),)) for axes in new) or not same_shape(value, x):
        return None
    cuts = [part.producer() for part in (odd, even) if part is not None]
    nodes = [flat, concat, left, right, negation, *(cut for cut in cuts if cut is not None)]
    return x, nodes, [ir.AttrInt64("interleaved", 1)]


def _every_other(edit: Edit, value: ir.Value | None, start: int) -> ir.Value | None:
    """Return x, if `value` is `x[..., start::2]`, perhaps without the last of these."""
    cut = made_by(edit, value, "Slice")
    found = static_slice(cut) if cut is not None else None
    if cut is None or found is None:
        return None
    starts, axes, steps = found
    x = cut.inputs[0]
    return x if (starts, steps) == ((start,), (2,)) and _is_last(axes[0], x) else None


def _half(edit: Edit, value: ir.Value | None, which: int) -> ir.Value | None:
    """Return x, if `value` is the first (0) or second (1) half of its last axis, and has no other reader."""
    half = piece(edit, value) if is_private(edit, value) else None
    if half is None or not _is_last(half.axis, half.x) or 2 * half.length != half.size:
        return None
    return half.x if half.start == which * half.length else None


def _is_last(axis: int | None, x: ir.Value | None) -> bool:
    axes = rank(x)
    return axes is not None and axis in (-1, axes - 1)
