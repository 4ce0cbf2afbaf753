"""A softmax of what its maximum was taken from is one without that.

    Softmax(Sub(x, ReduceMax(x, axis, keepdims=1)), axis)   ->   Softmax(x, axis)

and LogSoftmax likewise. Authors write this so that no exponential overflows, although every softmax does the same by
itself; without it, the attention around it is recognised. Sound because the softmax then subtracts a maximum of 0, and
so makes the same difference of the same numbers: float32 and double only, since half is computed with more digits
inside. Not over another axis, nor before opset 13, where a softmax goes over several. The difference may have other
readers, and stays for them.
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
    """Leave out such shifts; gives how many."""
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
