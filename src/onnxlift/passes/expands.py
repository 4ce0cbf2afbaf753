"""An Expand in front of an operator that broadcasts anyway is left out.

    Add(Expand(x, s), y)   ->   Add(x, y)      if x and y alone give the same shape

for the elementwise operators with two or more inputs, each reader by itself. Not if the Expand is what makes the
result as large as it is: the shapes with and without it must be known to be equal. Broadcasting repeats elements just
as Expand does, so the numbers are the same.
"""

from __future__ import annotations

import onnx_ir as ir

from ..ir.node_view import Shape, Unknown, shape_of
from ..ir.shape_rules import BROADCASTING, broadcast_shapes
from .edit import Edit, attribute, is_standard, sweep


def run(model: ir.Model) -> int:
    """Bypass Expand nodes; gives how many reads were redirected."""
    return sweep(model, _visit)


def _visit(edit: Edit, node: ir.Node) -> None:
    if not is_standard(node, *BROADCASTING) or attribute(node, "broadcast", 0) != 0:
        return
    if edit.scope.opset(node) < 8:
        return  # before, not all of these broadcast
    for index, value in enumerate(node.inputs):
        expand = None if value is None else value.producer()
        if expand is None or not is_standard(expand, "Expand"):
            continue
        inputs = list(node.inputs)
        inputs[index] = expand.inputs[0]
        if _broadcast(inputs) == shape_of(node.outputs[0]) is not None:
            node.replace_input_with(index, expand.inputs[0])
            edit.changes += 1


def _broadcast(values: list[ir.Value | None]) -> Shape | None:
    shapes = [shape_of(value) for value in values]
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes):
        return None
    try:
        return broadcast_shapes(known, _unknown)
    except Unknown:
        return None


def _unknown() -> str:
    raise Unknown
