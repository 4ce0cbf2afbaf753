"""The part of a tensor that indices go over, if it is a box: along each axis a slice or a single place.

    indices (batch, 2, 2) = every pair of Range(0, batch, 1) and [1, 2]     ->   all of axis 0, 1:3 of axis 1

The indices have an axis for each axis of the tensor that they go over, and one more for the coordinates. Coordinate j
varies along axis j only. All sizes are known as numbers or names.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import Dim, Shape, shape_of
from onnxlift.ir.inference import symbolic
from onnxlift.ir.inference.positions import Grid, Positions, grid_of


@dataclass(frozen=True)
class Side:
    """What a box has of one axis: `size` places, which are those of the slice `start:end:step`."""

    axis: int
    size: Dim
    start: int = 0
    end: int | None = None
    step: int = 1

    @property
    def is_single(self) -> bool:
        """Tell whether it is one place, at `start`."""
        return self.size == 1


def box_of(edit: Edit, positions: Positions, indices: ir.Value | None, sizes: Shape) -> list[Side] | None:
    """Return the sides of the box that `indices` go over, without those of a whole axis; None if it is no box.

    `sizes` are those of the indexed tensor."""
    shape = shape_of(indices)
    if indices is None or shape is None:
        return None
    joint = shape[:-1]
    coordinates = _coordinates(edit, positions, indices, joint)
    if len(coordinates) != len(joint):
        return None
    sides: list[Side] = []
    for axis, coordinate in enumerate(coordinates):
        side = _side(coordinate, axis, sizes[axis])
        if side is None:
            return None
        sides += [] if side == Side(axis, sizes[axis]) else [side]
    return sides


def _coordinates(edit: Edit, positions: Positions, indices: ir.Value, joint: Shape) -> list[Grid | None]:
    """Return the coordinates that are joined along the last axis, each in the shape `joint`."""
    tensor = constant(indices)
    if tensor is not None:
        return [grid_of(column) for column in np.moveaxis(tensor.numpy(), -1, 0)]
    joined = made_by(edit, indices, "Concat")
    parts = [indices] if joined is None else joined.inputs
    if joined is not None and attribute(joined, "axis", 0) not in (-1, len(joint)):
        return []
    grids = [positions.grid(part) if shape_of(part) == (*joint, 1) else None for part in parts]
    return [None if grid is None else Grid(joint, grid.strides[:-1], grid.offset) for grid in grids]


def _side(coordinate: Grid | None, axis: int, whole: Dim) -> Side | None:
    """Return what is indexed of an axis of the size `whole`; None if the indices are no slice, or not along this axis.

    A negative index is one place only: with the size of the axis left open, it is not known where a slice begins."""
    if coordinate is None or any(coordinate.strides[other] != 0 for other in coordinate.axes() if other != axis):
        return None
    size, first, step = coordinate.shape[axis], coordinate.offset, coordinate.strides[axis]
    if size == 1 and isinstance(first, int):
        return Side(axis, 1) if whole == 1 else Side(axis, 1, first, first + 1)
    if not isinstance(first, int) or not isinstance(step, int) or first < 0 or step < 1:
        return None
    if isinstance(size, int):
        end = first + (size - 1) * step + 1
        is_last = isinstance(whole, int) and end + step > whole
        return Side(axis, size, first, None if is_last else end, step)
    rest = symbolic.subtract(whole, first)
    return Side(axis, size, first) if rest is not None and size in (rest, symbolic.maximum(rest, 0)) else None
