"""A tensor whose elements move along an axis, and come back at the other end, is rolled.

    Concat(x[k:], x[:k], axis)       ->   Roll(x, shifts=[-k], axes=[axis])
    Roll(Roll(x, [s], [a]), [t], [b])   ->   Roll(x, [s, t], [a, b])

The two pieces are together the whole of one axis of known size. Nobody else reads them, or the first of two rolls.
Shifts are written in the direction in which they are shorter. Not along an axis of unknown size: if it is shorter than
k, one piece is empty and the other is the whole, while a roll would go round more than once.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_private, made_by
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import rank
from onnxlift.ir.graph.types import is_float
from onnxlift.rewriting.idioms.parts.pieces import piece
from onnxlift.stages import step


@step("roll")
def run(model: ir.Model) -> int:
    """Recognise rolls; return how many."""
    return sweep(model, {"Concat": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if len(node.inputs) != 2 or not is_float(node.outputs[0]):
        return
    last, first = (piece(edit, value) if is_private(edit, value) else None for value in node.inputs)
    axes = rank(node.outputs[0])
    if last is None or first is None or last.x is not first.x or last.axis != first.axis or axes is None:
        return
    is_whole = first.start == 0 and first.length == last.start and last.start + last.length == last.size
    if not is_whole or attribute(node, "axis", 1) not in (last.axis, last.axis - axes):
        return
    x, shifts, along = last.x, [-last.start if 2 * last.start <= last.size else last.length], [last.axis]
    cuts = [value.producer() for value in node.inputs if value is not None]
    inner = made_by(edit, x, "Roll", domain=DOMAIN)
    if inner is not None and inner.inputs[0] is not None and is_private(edit, x, readers=2):
        x = inner.inputs[0]
        shifts, along = [*attribute(inner, "shifts", []), *shifts], [*attribute(inner, "axes", []), *along]
    attributes = [ir.AttrInt64s("shifts", shifts), ir.AttrInt64s("axes", along)]
    edit.replace(node, "Roll", [x], attributes, domain=DOMAIN)
    drop_unused(edit, [*(cut for cut in cuts if cut is not None), *([] if inner is None else [inner])])
