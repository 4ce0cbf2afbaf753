"""One half of the features as the gate of the other half is a gated linear unit.

    a, b = Split(x, axis); Mul(a, Sigmoid(b))   ->   GLU(x, axis)

The two parts have the same size, and the product may have either order. Nobody else reads a part or the gate. The gate
must be made from the second part: `b * Sigmoid(a)` is another function.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, both_orders, drop_unused, is_private, made_by
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.stages import step


@step("glu")
def run(model: ir.Model) -> int:
    """Recognise gated linear units; return how many."""
    return sweep(model, {"Mul": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    for value, gate in both_orders(node):
        sigmoid = made_by(edit, gate, "Sigmoid")
        split = made_by(edit, value, "Split")
        if sigmoid is None or split is None or not is_private(edit, gate):
            continue
        if len(split.outputs) != 2 or sigmoid.inputs[0] is not split.outputs[1]:
            continue
        axis, (first, second) = attribute(split, "axis", 0), split.outputs
        if shape_of(first) is None or shape_of(first) != shape_of(second) or axis is None:
            continue
        if is_private(edit, first) and is_private(edit, second):  # so `value` is `first`: the Sigmoid reads `second`
            edit.replace(node, "GLU", [split.inputs[0]], [ir.AttrInt64("axis", axis)], domain=DOMAIN)
            drop_unused(edit, [sigmoid, split])
            return
