"""Cuts along several axes, one after the other, are one cut.

    Slice(Slice(x, along rows), along columns)   ->   Slice(x, along rows and columns)      `x[:, ::2, 1::2]`

if the bounds and steps are constants, and the axes are others. Only where the first cut is read by nothing but such
cuts, so that it is no longer needed. Sound because what is cut along one axis does not depend on the others. Runs last:
other idioms look for single cuts.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ..ir.node_view import static_elements, static_slice
from ..passes.edit import Edit, is_standard, sweep
from .match import made_by, rank

Cut = dict[int, list[int]]
"""Axis -> start, end and step."""


def run(model: ir.Model) -> int:
    """Merge cuts; gives how many."""
    return sweep(model, _visit)


def _visit(edit: Edit, node: ir.Node) -> None:
    cut = _cut(node)
    first = made_by(edit, node.inputs[0], "Slice") if cut is not None else None
    before = _cut(first) if first is not None else None
    if cut is None or first is None or before is None or edit.is_output(first.outputs[0]):
        return
    others = [_cut(user) if index == 0 else None for user, index in first.outputs[0].uses()]
    if any(other is None or not before.keys().isdisjoint(other) for other in others):
        return
    both = sorted({**before, **cut}.items())
    columns = zip(*((start, end, axis, step) for axis, (start, end, step) in both), strict=True)
    names = (f"{node.outputs[0].name}.{word}" for word in ("starts", "ends", "axes", "steps"))
    bounds = [edit.constant(name, np.array(column, np.int64)) for name, column in zip(names, columns, strict=True)]
    edit.replace(node, "Slice", [first.inputs[0], *bounds])


def _cut(node: ir.Node) -> Cut | None:
    """What a Slice cuts, if that is known."""
    known = static_slice(node) if is_standard(node, "Slice") else None
    ends = static_elements(node.inputs[2]) if known is not None else None
    axes_of_x = rank(node.inputs[0]) if known is not None else None
    if known is None or ends is None or axes_of_x is None:
        return None
    starts, axes, steps = known
    cut = {axis % axes_of_x: rest for axis, *rest in zip(axes, starts, ends, steps, strict=True)}
    return cut if len(cut) == len(axes) else None
