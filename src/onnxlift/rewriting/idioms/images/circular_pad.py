"""A tensor that continues at one end as it begins at the other is padded circularly.

    Concat(x[-a:], x, x[:b], axis)                   ->   CircularPad(x, pads)     `F.pad(x, (a, b), mode="circular")`
    CircularPad(CircularPad(x, pads), other pads)    ->   CircularPad(x, both)

x is a floating-point tensor of three to five axes. It is padded along an axis after batch and channels whose size is
known. The second rule is for pads along different axes. Not if another node reads the pieces or the first of two pads,
nor if a piece is not at the very end of x. Sound because this is what PyTorch's padding means; a piece is never longer
than x.
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


@step("circular-pad")
def run(model: ir.Model) -> int:
    """Recognise circular padding; return how often."""
    return sweep(model, {"Concat": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    axes = rank(node.outputs[0])
    if len(node.inputs) != 3 or axes not in (3, 4, 5) or not is_float(node.outputs[0]):
        return
    before, x, after = node.inputs
    last, first = piece(edit, before), piece(edit, after)
    if x is None or last is None or first is None or not (is_private(edit, before) and is_private(edit, after)):
        return
    axis = last.axis
    if (
        last.x is not x
        or first.x is not x
        or first.axis != axis
        or attribute(node, "axis", 1) not in (axis, axis - axes)
    ):
        return
    if axis < 2 or first.start != 0 or last.start + last.length != last.size or 0 in (first.length, last.length):
        return
    pads = [0] * (2 * axes)
    pads[axis], pads[axes + axis] = last.length, first.length
    cuts = [value.producer() for value in (before, after) if value is not None]
    inner = made_by(edit, x, "CircularPad", domain=DOMAIN)
    if inner is not None and is_private(edit, x, readers=3) and not attribute(inner, "pads", ())[axis]:
        x = inner.inputs[0]
        pads = [ours + theirs for ours, theirs in zip(pads, attribute(inner, "pads", ()), strict=True)]
    options = [ir.AttrInt64s("pads", pads), ir.AttrString("mode", "wrap")]
    edit.replace(node, "CircularPad", [x], options, domain=DOMAIN)
    drop_unused(edit, [*(cut for cut in cuts if cut is not None), *([] if inner is None else [inner])])
