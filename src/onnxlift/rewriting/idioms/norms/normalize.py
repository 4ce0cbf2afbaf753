"""A vector divided by its length is normalised by one function.

    Div(x, Max(ReduceL2(x, axis), eps))   ->   Normalize(x, axis, eps)
    Div(x, Max(ReduceL1(x, axis), eps))   ->   Normalize(x, axis, eps, p=1)

This is `F.normalize`. A Clip with a lower bound only may stand for the Max. The norm is that of the same x which is
divided, over one axis, and keeps this axis. eps is a number, and nobody else reads the norm. Sound because the function
is defined like this.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_private, made_by, with_number
from onnxlift.ir.graph.constants import number
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import rank, static_elements
from onnxlift.ir.graph.types import DataType
from onnxlift.stages import step


@step("normalize")
def run(model: ir.Model) -> int:
    """Recognise normalised vectors; return how many."""
    return sweep(model, {"Div": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if node.outputs[0].dtype not in (DataType.FLOAT, DataType.DOUBLE):
        return
    x, length = node.inputs
    bound = made_by(edit, length, "Max", "Clip")
    found = None if bound is None or not is_private(edit, length) else _bounded(bound)
    if bound is None or found is None or x is None:
        return
    value, eps = found
    norm = made_by(edit, value, "ReduceL1", "ReduceL2")
    if norm is None or norm.inputs[0] is not x or not is_private(edit, value) or attribute(norm, "keepdims", 1) != 1:
        return
    axes = static_elements(norm.inputs[1]) if len(norm.inputs) > 1 else attribute(norm, "axes", ())
    if axes is None or len(axes) != 1 or rank(x) is None:
        return
    options = [ir.AttrInt64("axis", axes[0]), ir.AttrFloat32("epsilon", eps)]
    if norm.op_type == "ReduceL1":
        options.append(ir.AttrInt64("p", 1))
    edit.replace(node, "Normalize", [x], options, domain=DOMAIN)
    drop_unused(edit, [bound, norm])


def _bounded(node: ir.Node) -> tuple[ir.Value, float] | None:
    """Return the value that the node bounds from below, and the bound; None if there is an upper bound, too."""
    if node.op_type == "Max":
        return with_number(node) if len(node.inputs) == 2 else None
    value, low, high = (*node.inputs, None, None)[:3]
    found = number(low) if len(node.inputs) > 1 else attribute(node, "min", None)
    upper = high is not None or attribute(node, "max", None) is not None
    return None if value is None or found is None or upper else (value, found)
