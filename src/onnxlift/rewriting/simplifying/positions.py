"""Leave out indexing with all positions, and comparisons that always hold.

1. GatherND(x, Concat(i, j))        ->  Unsqueeze(x, axes)       if i, j count all rows and all columns of x
2. Gather(Flatten(x), i * n + j)    ->  Unsqueeze(x, axes)       the same with indices into the flat x of n columns
3. i >= 0                           ->  Expand(True, Shape(i))   if i is nowhere negative; likewise <, <= and >
4. And(t, m)                        ->  Expand(m, Shape(t))      if t is all true: a mask of ones, in whatever shape

Here i and j are the positions along one axis each (inference/positions.py): `x[arange(b)[:, None, None], arange(n)]` is
`x[:, None, :]`. Exporters write the padding mask of a transformer so. If the sizes are fixed, the indices of rule 1 are
one constant.

Rules 1 and 2 need indices that start at 0, count by 1 and run over whole axes of x: the sizes must be known to be
equal, a bound is not enough. They must run over all indexed axes in the order of x, and all other axes of the indices
must have size 1. In rule 2, axes of size 1 of x must be where they were, or there must be none. Then each element of x
is read once and stays in its place.

Rule 3 needs a bound that holds for all sizes. An Expand keeps the shape of what it replaces; the pass `expands` leaves
it out where it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import Dim, Shape, shape_of
from onnxlift.ir.inference import symbolic
from onnxlift.ir.inference.positions import COMPARISONS, Grid, Positions, grid_of, is_all_true
from onnxlift.stages import step

_MAX_INDICES = 1 << 16


@step(
    "positions",
    after={
        "no-ops": "a mask of constants that hides nothing is gone by then",
        "single-index": "a lookup by one index array is a Gather, whatever the indices are",
        "tables": "positions that are cut out of a table are counted by then",
    },
    repeats=True,
)
def run(model: ir.Model) -> int:
    """Remove indexing and comparisons without effect; return how many."""
    positions = Positions()
    return sweep(
        model,
        {
            "GatherND": partial(_visit_joined, positions=positions),
            "Gather": partial(_visit_flat, positions=positions),
            tuple(COMPARISONS): partial(_visit_comparison, positions=positions),
            "And": _visit_and,
        },
    )


def _visit_joined(edit: Edit, node: ir.Node, positions: Positions) -> None:
    """Apply rule 1."""
    data, indices = node.inputs[0], node.inputs[1]
    shape, joint = shape_of(data), shape_of(indices)
    if data is None or shape is None or joint is None or attribute(node, "batch_dims", 0) != 0:
        return
    grids = _parts(indices, len(joint) - 1, positions)
    counted = [None if grid is None else _counted(grid, size) for grid, size in zip(grids, shape, strict=False)]
    if counted:
        _unsqueeze(edit, node, data, joint[:-1], [axis for axis in counted if axis is not None], len(counted))


def _parts(indices: ir.Value | None, last: int, positions: Positions) -> list[Grid | None]:
    """Return the grids that are joined along the last axis, one for each indexed axis; an empty list if the indices are
    not so made."""
    joined, tensor = None if indices is None else indices.producer(), constant(indices)
    if tensor is not None:
        return [grid_of(column) for column in np.moveaxis(tensor.numpy(), -1, 0)] if tensor.size <= _MAX_INDICES else []
    if joined is None or not is_standard(joined, "Concat") or attribute(joined, "axis", None) not in (-1, last):
        return []
    if any((shape_of(part) or (None,))[-1] != 1 for part in joined.inputs):
        return []
    found = [positions.grid(part) for part in joined.inputs]
    return [Grid(grid.shape[:-1], grid.strides[:-1], grid.offset) if grid is not None else None for grid in found]


def _counted(grid: Grid, size: Dim) -> int | None:
    """Return the axis along which the grid counts 0, 1, ..., size - 1. Return None if it does not count so, or along
    another axis too."""
    moving = [axis for axis, stride in enumerate(grid.strides) if stride != 0]
    if len(moving) != 1 or grid.offset != 0 or grid.strides[moving[0]] != 1 or grid.shape[moving[0]] != size:
        return None
    return moving[0]


def _visit_flat(edit: Edit, node: ir.Node, positions: Positions) -> None:
    flat = None if node.inputs[0] is None else node.inputs[0].producer()
    if flat is None or not is_standard(flat, "Flatten", "Reshape") or attribute(node, "axis", 0) != 0:
        return
    data, sizes, shape = flat.inputs[0], shape_of(flat.outputs[0]), shape_of(flat.inputs[0])
    if data is None or shape is None or sizes is None or sizes[1:] not in ((), (1,)):
        return
    grid = positions.grid(node.inputs[1])
    if grid is None or grid.offset != 0:
        return
    axes, joint = grid.axes(), (*grid.shape, *sizes[1:])
    steps = [(grid.strides[axis], grid.shape[axis]) for axis in axes]
    if steps != [(step, size) for step, size in zip(_row_major(shape), shape, strict=True) if size != 1]:
        return
    if joint == shape:
        edit.bypass(node, data)
    elif 1 not in shape:
        _unsqueeze(edit, node, data, joint, axes, len(axes))


def _row_major(shape: Shape) -> list[Dim | None]:
    """Return for each axis how many elements apart two neighbours are."""
    return [symbolic.product(shape[axis + 1 :]) for axis in range(len(shape))]


def _unsqueeze(edit: Edit, node: ir.Node, data: ir.Value, joint: Shape, axes: Sequence[int], count: int) -> None:
    """Replace the node by `data`, with its first `count` axes at `axes` of the shape `joint`."""
    rest = [axis for axis in range(len(joint)) if axis not in axes]
    if len(axes) != count or list(axes) != sorted(set(axes)) or any(joint[axis] != 1 for axis in rest):
        return
    if not rest:
        edit.bypass(node, data)
        return
    inputs, attributes = edit.axes(node, rest)
    edit.replace(node, "Unsqueeze", [data, *inputs], attributes)


def _visit_comparison(edit: Edit, node: ir.Node, positions: Positions) -> None:
    """Apply rule 3."""
    grid = positions.condition(node.outputs[0])
    if grid is None or not grid.is_nonnegative() or edit.opset(node) < 8:
        return
    for operand in node.inputs:
        if operand is not None and shape_of(operand) == grid.shape:
            always = edit.constant(f"{node.outputs[0].name}.always", np.array(True))
            edit.replace(node, "Expand", [always, edit.shape(node, operand)])
            return


def _visit_and(edit: Edit, node: ir.Node) -> None:
    """Apply rule 4."""
    left, right = node.inputs
    for mask, condition in ((left, right), (right, left)):
        if mask is not None and condition is not None and is_all_true(condition) and edit.opset(node) >= 8:
            edit.replace(node, "Expand", [mask, edit.shape(node, condition)])
            return
