"""A global pool whose empty axes are dropped at once is a mean.

    Flatten(GlobalAveragePool(x), axis=1)   ->   SpatialMean(x, all axes but the first two)

and the same with Reshape or Squeeze for Flatten, or a ReduceMean that keeps its axes for the pool: `x.mean((2, 3))`.
It applies when the second node's result has exactly the first two sizes of x, and nothing else reads the pool's. Not
for integers, whose means are integers in ONNX and nothing in PyTorch.

    SpatialMean(Transpose(x))   ->   SpatialMean(x, axes)      if the axes that stay keep their order
    SpatialMean(Unsqueeze(x))   ->   SpatialMean(x, axes)      if the new axes are not all that go

so that a pool over (batch, channels, length) of what is (batch, length, channels) is `x.mean(1)`. Nothing else reads
what was transposed. Sound because a mean does not depend on the order of axes, nor on those of size 1.

    Squeeze(ReduceMean(Unsqueeze(x, a), a and others), a)   ->   ReduceMean(x, others)      if it keeps its axes

which is how PyTorch's newer exporter pools a signal. Nothing else reads what is in between.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import axes_of, permutation
from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import is_float
from onnxlift.stages import step

_MOST_MOVES = 8


@step("global-mean", after={"variance": "the mean of squares in a variance is no pool"})
def run(model: ir.Model) -> int:
    """Recognise global means; gives how many."""
    return sweep(model, {("Flatten", "Reshape", "Squeeze"): _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    pool = made_by(edit, node.inputs[0], "GlobalAveragePool", "ReduceMean")
    if pool is None or not is_private(edit, node.inputs[0]):
        return
    if _of_a_signal(edit, node, pool):
        return
    before, after = shape_of(pool.inputs[0]), shape_of(node.outputs[0])
    if before is None or len(before) < 3 or after != before[:2] or not is_float(pool.inputs[0]):
        return
    if pool.op_type == "GlobalAveragePool" or _averages_space(pool, len(before)):
        source, axes, moves = _before_moves(edit, pool.inputs[0], list(range(2, len(before))))
        edit.replace(node, "SpatialMean", [source], [ir.AttrInt64s("axes", axes)], domain=DOMAIN, named_by=pool)
        drop_unused(edit, [pool, *moves])


def _of_a_signal(edit: Edit, node: ir.Node, pool: ir.Node) -> bool:
    """Whether `node` drops an axis that was there only while `pool` averaged; it then is gone."""
    raised = made_by(edit, pool.inputs[0], "Unsqueeze")
    if raised is None or node.op_type != "Squeeze" or len(pool.inputs) != 2:
        return False
    shape, gone, added, averaged = shape_of(pool.inputs[0]), axes_of(node), axes_of(raised), axes_of(pool)
    if shape is None or gone is None or added is None or averaged is None:
        return False
    dropped, new, axes = (sorted(axis % len(shape) for axis in found) for found in (gone, added, averaged))
    if len(new) != 1 or dropped != new or new[0] not in axes or len(axes) == 1:
        return False
    if attribute(pool, "keepdims", 1) != 1 or not is_private(edit, pool.inputs[0]):
        return False
    others = np.array([axis - (axis > new[0]) for axis in axes if axis != new[0]])
    inputs = [raised.inputs[0], edit.constant(f"{node.outputs[0].name}.axes", others)]
    edit.replace(node, "ReduceMean", inputs, [ir.AttrInt64("keepdims", 1)], named_by=pool)
    drop_unused(edit, [pool, raised])
    return True


def _before_moves(
    edit: Edit, value: ir.Value | None, axes: list[int]
) -> tuple[ir.Value | None, list[int], list[ir.Node]]:
    """What `value` was before its axes were moved or new ones added, the places of `axes` there, and the nodes."""
    nodes: list[ir.Node] = []
    while (moved := _moved(edit, value, axes)) is not None and len(nodes) < _MOST_MOVES:
        assert value is not None
        node, axes = moved
        nodes.append(node)
        value = node.inputs[0]
    return value, axes, nodes


def _moved(edit: Edit, value: ir.Value | None, axes: list[int]) -> tuple[ir.Node, list[int]] | None:
    """The node that has moved the axes of `value`, and where `axes` were before; None if it does not count."""
    node = made_by(edit, value, "Transpose", "Unsqueeze")
    shape = shape_of(value)
    if node is None or shape is None or not is_private(edit, value):
        return None
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    if node.op_type == "Transpose":
        order = permutation(node)
        if order is None or [order[axis] for axis in kept] != sorted(order[axis] for axis in kept):
            return None
        return node, sorted(order[axis] for axis in axes)
    added = axes_of(node)
    new = None if added is None else {axis % len(shape) for axis in added}
    if new is None or not new < set(axes):
        return None
    return node, [axis - sum(other < axis for other in new) for axis in axes if axis not in new]


def _averages_space(node: ir.Node, rank: int) -> bool:
    """Whether a ReduceMean reduces all axes but the first two."""
    axes = axes_of(node)
    return axes is not None and sorted(axis % rank for axis in axes) == list(range(2, rank))
