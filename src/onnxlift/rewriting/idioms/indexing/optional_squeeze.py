"""A branch that removes an axis if it has one element is a squeeze.

    If(Equal(Gather(Shape(x), axis), 1), then: Squeeze(x, axis), else: x)   ->   OptionalSqueeze(x, axis)

PyTorch's exporter writes `x.squeeze(axis)` like this if it does not know the size. Sound because this is what PyTorch's
function means. The condition must ask for the same axis of the same x that the branch removes.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, both_orders, made_by
from onnxlift.ir.graph.constants import number
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import rank, static_elements
from onnxlift.stages import step


@step("optional-squeeze")
def run(model: ir.Model) -> int:
    """Recognise axes that are removed if they have size 1; return how many."""
    return sweep(model, {"If": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if len(node.outputs) != 1 or node.outputs[0].dtype == ir.DataType.STRING:
        return
    then, otherwise = (attribute(node, name, None) for name in ("then_branch", "else_branch"))
    if then is None or otherwise is None or len(then) != 1 or len(otherwise) != 1:
        return
    squeeze, kept = then[0], otherwise[0]
    x = kept.inputs[0] if is_standard(kept, "Identity") else None
    if x is None or not is_standard(squeeze, "Squeeze") or squeeze.inputs[0] is not x:
        return
    axis = _axis(squeeze)
    if axis is not None and _asks_for(edit, node.inputs[0], x, axis):
        edit.replace(node, "OptionalSqueeze", [x], [ir.AttrInt64("axis", axis)], domain=DOMAIN)


def _axis(squeeze: ir.Node) -> int | None:
    axes = static_elements(squeeze.inputs[1]) if len(squeeze.inputs) > 1 else attribute(squeeze, "axes", None)
    return int(axes[0]) if axes is not None and len(axes) == 1 else None


def _asks_for(edit: Edit, condition: ir.Value | None, x: ir.Value, axis: int) -> bool:
    """Tell whether the condition is that this axis of x has one element."""
    equal = made_by(edit, condition, "Equal")
    for size, one in both_orders(equal) if equal is not None else ():
        gather = made_by(edit, size, "Gather") if number(one) == 1 else None
        index = None if gather is None else static_elements(gather.inputs[1])
        shape = None if gather is None else made_by(edit, gather.inputs[0], "Shape")
        if index is None or shape is None or len(index) != 1 or shape.inputs[0] is not x or shape.attributes:
            continue
        axes = rank(x)
        if index[0] == axis or (axes is not None and index[0] % axes == axis % axes):
            return True
    return False
