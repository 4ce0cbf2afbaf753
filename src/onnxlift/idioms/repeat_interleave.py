"""Elements repeated one by one along an axis.

    Reshape(Expand(Unsqueeze(x, k), s))   ->   RepeatInterleave(x, repeats, axis=k - 1)

if the Expand changes nothing but the new axis k, to a known number, and the Reshape joins it with the axis before.
Sound because the elements along k are equal, and vary fastest in the joined axis. Not if somebody else reads a value
in between.
"""

from __future__ import annotations

import onnx_ir as ir

from ..ir import symbolic
from ..ir.node_view import shape_of
from ..passes.edit import Edit, is_standard, sweep
from ..passes.reshapes import unsqueezed_axes
from .match import DOMAIN, drop_unused, is_private, made_by


def run(model: ir.Model) -> int:
    """Recognise repeated elements; gives how many."""
    return sweep(model, _visit)


def _visit(edit: Edit, node: ir.Node) -> None:
    if not is_standard(node, "Reshape", "Flatten"):
        return
    expand = made_by(edit, node.inputs[0], "Expand")
    new = made_by(edit, expand.inputs[0], "Unsqueeze") if expand is not None else None
    if expand is None or new is None or not is_private(edit, node.inputs[0]) or not is_private(edit, expand.inputs[0]):
        return
    x, axes = new.inputs[0], unsqueezed_axes(new)
    shape, wide, joined = shape_of(x), shape_of(expand.outputs[0]), shape_of(node.outputs[0])
    if shape is None or wide is None or axes is None or len(axes) != 1:
        return
    axis = axes[0] % len(wide)
    repeats = wide[axis]
    if axis == 0 or not isinstance(repeats, int) or repeats < 2 or wide != (*shape[:axis], repeats, *shape[axis:]):
        return
    if joined == (*shape[: axis - 1], symbolic.multiply(shape[axis - 1], repeats), *shape[axis:]):
        options = [ir.AttrInt64("axis", axis - 1), ir.AttrInt64("repeats", repeats)]
        edit.replace(node, "RepeatInterleave", [x], options, domain=DOMAIN)
        drop_unused(edit, [expand, new])
