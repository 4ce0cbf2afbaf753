"""A swap of the last two axes by way of three axes is one transpose.

    Reshape(Transpose(Reshape(x, (-1, m, n)), (0, 2, 1)), (..., n, m))   ->   Transpose(x, swap the last two)

PyTorch's exporter writes `x.transpose(-1, -2)` like this in attention. It applies if the shapes prove that x is (...,
m, n) and the result (..., n, m) with the same leading axes. x may have other axes, because it was itself reshaped and
the two reshapes were merged. Then another reshape of x that has these axes is transposed. Sound because the reshapes
only merge the leading axes and split them again in the same way. Not if another node reads a value in between.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.shapes import Dim, shape_of
from onnxlift.stages import step

_MAX_LOOKED_AT = 64


@step("matrix-transpose")
def run(model: ir.Model) -> int:
    """Merge swaps of the last two axes; return how many."""
    reshapes: set[ir.Node] = set()

    def visit(edit: Edit, node: ir.Node) -> None:
        _visit(edit, node, reshapes)
        reshapes.add(node)

    return sweep(model, {"Reshape": visit})


def _visit(edit: Edit, node: ir.Node, earlier: Collection[ir.Node]) -> None:
    transpose = made_by(edit, node.inputs[0], "Transpose")
    before = made_by(edit, transpose.inputs[0], "Reshape") if transpose is not None else None
    if transpose is None or before is None or list(permutation(transpose) or ()) != [0, 2, 1]:
        return
    merged, target = shape_of(before.outputs[0]), shape_of(node.outputs[0])
    if merged is None or target is None or target[-2:] != (merged[2], merged[1]):
        return
    source = _with_shape(edit, before.inputs[0], (*target[:-2], merged[1], merged[2]), earlier)
    if source is None or not (is_private(edit, node.inputs[0]) and is_private(edit, transpose.inputs[0])):
        return
    order = [*range(len(target) - 2), len(target) - 1, len(target) - 2]
    edit.replace(node, "Transpose", [source], [ir.AttrInt64s("perm", order)])
    drop_unused(edit, [transpose, before])


def _with_shape(
    edit: Edit, source: ir.Value | None, shape: tuple[Dim, ...], earlier: Collection[ir.Node]
) -> ir.Value | None:
    """Return `source` if it has this shape, else one of its `earlier` reshapes that has it."""
    if source is None or shape_of(source) == shape:
        return source
    for user, _ in islice(source.uses(), _MAX_LOOKED_AT):
        if user in earlier and user.graph is edit.graph:
            (output,) = user.outputs
            if user.inputs[0] is source and shape_of(output) == shape:
                return output
    return None
