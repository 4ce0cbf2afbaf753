"""A global pool whose axes of size 1 are dropped at once is a mean.

    Flatten(GlobalAveragePool(x), axis=1)   ->   SpatialMean(x, all axes but the first two)

This is `x.mean((2, 3))`. The Flatten may be a Reshape or Squeeze, the pool a ReduceMean that keeps its axes. It applies
if the second node's result has exactly the first two sizes of x, and nothing else reads the pool's result. Not for
integers: ONNX's mean of them is an integer, PyTorch has none.

    SpatialMean(Transpose(x))   ->   SpatialMean(x, axes)      if the axes that stay keep their order
    SpatialMean(Unsqueeze(x))   ->   SpatialMean(x, axes)      if it averages all new axes, and others

So the pool of a transposed tensor is a mean without a transpose: `x.mean(1)` for x of (batch, length, channels).
Nothing else reads the transposed tensor. Sound because a mean depends neither on the order of axes, nor on axes of size
1.

    Squeeze(ReduceMean(Unsqueeze(x, a), a and others), a)   ->   ReduceMean(x, others)      if it keeps its axes

PyTorch's newer exporter pools a signal like this. Nothing else reads a value in between.
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
    """Recognise global means; return how many."""
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
    """Drop an axis that is there only while `pool` averages; return whether `node` removes such an axis."""
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
    """Return the value from before the axes were moved or new ones added, the places of `axes` there, and the nodes."""
    nodes: list[ir.Node] = []
    while (moved := _moved(edit, value, axes)) is not None and len(nodes) < _MOST_MOVES:
        assert value is not None
        node, axes = moved
        nodes.append(node)
        value = node.inputs[0]
    return value, axes, nodes


def _moved(edit: Edit, value: ir.Value | None, axes: list[int]) -> tuple[ir.Node, list[int]] | None:
    """Return the node that has moved the axes of `value`, and the places of `axes` before.

    Return None if there is no such node, or if the mean would change without it.
    """
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
    """Tell whether a ReduceMean reduces all axes but the first two."""
    axes = axes_of(node)
    return axes is not None and sorted(axis % rank for axis in axes) == list(range(2, rank))
