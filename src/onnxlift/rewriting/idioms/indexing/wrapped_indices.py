"""Indices that count from the end if they are negative do so without being told.

    GatherElements(x, Where(i < 0, i + n, i), axis)   ->   GatherElements(x, i, axis)

for Gather, GatherElements and ScatterElements along an axis of n elements: this is how ONNX's operators read negative
indices themselves, and how exporters write PyTorch's indexing. In the place of the last i may be an Expand of i. Not
with another number than the size of the axis, nor if that is not known to be the same; nor if the shape of the indices
is not. Sound for all indices that are in range; one below -n, which would be in range only when counted from the end
twice, is an error afterwards.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import both_orders, drop_unused, made_by
from onnxlift.ir.graph.constants import number
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import elements_of, shape_of
from onnxlift.stages import step


@step("wrapped-indices")
def run(model: ir.Model) -> int:
    """Recognise such indices; gives how many."""
    return sweep(model, {("Gather", "GatherElements", "ScatterElements"): _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    shape, axis = shape_of(node.inputs[0]), attribute(node, "axis", 0)
    choice = made_by(edit, node.inputs[1], "Where")
    if choice is None or shape is None or axis is None or not -len(shape) <= axis < len(shape):
        return
    condition, shifted, indices = choice.inputs
    less, add, expand = (made_by(edit, *each) for each in ((condition, "Less"), (shifted, "Add"), (indices, "Expand")))
    plain = indices if expand is None else expand.inputs[0]
    wanted = shape_of(choice.outputs[0])
    if less is None or add is None or plain is None or wanted is None or shape_of(indices) != wanted:
        return
    if less.inputs[0] not in (plain, indices) or number(less.inputs[1]) != 0:
        return
    for value, size in both_orders(add):
        if value in (plain, indices) and elements_of(size) == (shape[axis],):
            node.replace_input_with(1, indices)
            edit.changes += 1
            drop_unused(edit, [choice, less, add])
            return
