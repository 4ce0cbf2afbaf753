"""The slope of a PReLU that has one for all channels is read as it is stored.

    PRelu(x, Reshape(slope, (1, 1, 1)))   ->   PRelu(x, slope)

PyTorch's newer exporter gives the slope as many axes as x has. Applies to a constant of one element, by whatever
reshaping, if x has at least its axes. Sound because one element means the same for every shape that it is broadcast to.
Otherwise it would be a number that nobody trains: a layer's own weight is what the layer reads.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import drop_unused, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import rank
from onnxlift.stages import step


@step("single-slopes")
def run(model: ir.Model) -> int:
    """Let layers read their slope as it is stored; return how many."""
    return sweep(model, {"PRelu": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    x, slope = node.inputs
    moves: list[ir.Node] = []
    while (move := made_by(edit, slope, "Reshape", "Unsqueeze", "Squeeze", "Flatten")) is not None:
        moves.append(move)
        slope = move.inputs[0]
    tensor, axes = constant(slope), rank(x)
    if not moves or tensor is None or tensor.size != 1 or axes is None or axes < len(tensor.shape):
        return
    node.replace_input_with(1, slope)
    drop_unused(edit, moves)
    edit.changes += 1
