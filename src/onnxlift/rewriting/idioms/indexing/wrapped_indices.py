"""Negative indices count from the end without being told so.

    GatherElements(x, Where(i < 0, i + n, i), axis)   ->   GatherElements(x, i, axis)

It applies to Gather, GatherElements and ScatterElements along an axis of n elements. Exporters write PyTorch's indexing
like this, although ONNX's operators read negative indices in the same way by themselves. The last i may be an Expand of
i. Not unless the number that is added is known to be the size of the axis, nor if the shape of the indices is unknown.
Sound for all indices that are in range. An index below -n, which only counting from the end twice would bring into
range, becomes an error.
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
    """Drop the arithmetic for negative indices; return how many."""
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
