"""A softmax does not need the maximum subtracted first.

    Softmax(Sub(x, ReduceMax(x, axis, keepdims=1)), axis)   ->   Softmax(x, axis)

The same holds for LogSoftmax. Authors write this so that no exponential overflows, although every softmax subtracts the
maximum by itself. Without the Sub, the attention around it is recognised.

Sound because the softmax of the difference subtracts a maximum of 0, so that it computes with the same differences of
the same numbers. For float32 and double only, since in half precision the softmax computes with more digits inside. Not
over another axis, nor before opset 13, where a softmax goes over several axes. The difference may have other readers,
and stays for them.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import drop_unused, made_by
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import rank
from onnxlift.ir.graph.types import DataType
from onnxlift.stages import step


@step("shifted-softmax")
def run(model: ir.Model) -> int:
    """Drop the subtraction of the maximum before a softmax; return how many."""
    return sweep(model, {("Softmax", "LogSoftmax"): _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if edit.opset(node) < 13:
        return
    shift = made_by(edit, node.inputs[0], "Sub")
    largest = made_by(edit, shift.inputs[1], "ReduceMax") if shift is not None else None
    if shift is None or largest is None or largest.inputs[0] is not shift.inputs[0]:
        return
    x, axes, axis = shift.inputs[0], axes_of(largest), attribute(node, "axis", -1)
    size = rank(x)
    if x is None or size is None or axis is None or axes is None or attribute(largest, "keepdims", 1) != 1:
        return
    if len(axes) == 1 and axes[0] % size == axis % size and x.dtype in (DataType.FLOAT, DataType.DOUBLE):
        node.replace_input_with(0, x)
        edit.changes += 1
        drop_unused(edit, [shift, largest])
