"""Whole slices of a tensor that are gathered element by element are gathered as slices.

    GatherElements(x, Tile(Unsqueeze(i, [0, 2]), [1, 1, n]), axis=1)   ->   Gather(x, i, axis=1)

i is a list of indices along one axis. A Tile or Expand repeats it along all other axes as often as x has elements
there. GPT-J and CodeGen look up their rotary positions like this. Not if a size of x differs from that of the indices,
or is not known to be the same: GatherElements would then leave out a part of x. Sound because all elements of a slice
are taken from the same index.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import drop_unused, made_by
from onnxlift.ir.graph.axes import axes_of, axis_of
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.stages import step


@step("gathered-slices", after={"wrapped-indices": "it looks for repeated indices, without a choice around them"})
def run(model: ir.Model) -> int:
    """Recognise gathered slices; return how many."""
    return sweep(model, {"GatherElements": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    data, indices = node.inputs
    wide = made_by(edit, indices, "Tile", "Expand")
    new = made_by(edit, wide.inputs[0], "Unsqueeze") if wide is not None else None
    shape, read = shape_of(data), shape_of(indices)
    axis = None if shape is None else axis_of(node, len(shape))
    if wide is None or new is None or data is None or axis is None or shape is None or read is None:
        return
    axes, rows = axes_of(new), shape_of(new.inputs[0])
    others = {place for place in range(len(shape)) if place != axis}
    if (
        axes is None
        or len(read) != len(shape)
        or {place % len(shape) for place in axes} != others
        or rows != (read[axis],)
    ):
        return
    if any(shape[place] != read[place] for place in others):
        return
    edit.replace(node, "Gather", [data, new.inputs[0]], [ir.AttrInt64("axis", axis)])
    drop_unused(edit, [wide, new])
