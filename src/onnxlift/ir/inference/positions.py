"""Find tensors of positions: integers that a graph makes from Range by new axes, products with sizes, and sums.

    Range(0, n, 1)                          i                 a Grid with the stride 1 along its one axis
    Unsqueeze(Range(0, n, 1), 1) * m + j    m * i + j         a Grid with the strides (m, 1)

Exporters write indexing and masks this way. The elements of such a tensor are known before the model runs, up to the
sizes. So it can be compared with another one, or be found to count all elements of a tensor in their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import Dim, Shape, elements_of, shape_of
from onnxlift.ir.graph.types import DataType

from . import symbolic

_MAX_DEPTH = 16
_MAX_CONSTANT = 1 << 16
_SHAPING = frozenset({"Cast", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Expand"})
_SHIFTING = frozenset({"Add", "Sub", "Mul"})
COMPARISONS = {"GreaterOrEqual": (False, 0), "Greater": (False, 1), "LessOrEqual": (True, 0), "Less": (True, 1)}
"""Comparison -> whether the second operand is the larger one if it is true, and by how much at least."""


@dataclass(frozen=True)
class Grid:
    """Integers that grow evenly along each axis: the one at (i, j) is `offset + strides[0] * i + strides[1] * j`."""

    shape: Shape
    strides: tuple[Dim, ...]
    offset: Dim = 0

    def axes(self) -> list[int]:
        """Return the axes whose size is not known to be 1. The integers can change only along these."""
        return [axis for axis, size in enumerate(self.shape) if size != 1]

    def is_nonnegative(self) -> bool:
        """Tell whether no element is below 0, whatever the sizes are."""
        lowest: Dim | None = self.offset
        for size, stride in zip(self.shape, self.strides, strict=True):
            if symbolic.is_nonnegative(stride) or size == 1:
                continue
            last = symbolic.subtract(size, 1)
            change = None if last is None else symbolic.multiply(stride, last)
            lowest = None if change is None or lowest is None else symbolic.add(lowest, change)
        return lowest is not None and symbolic.is_nonnegative(lowest)


class Positions:
    """The grids of a graph's values. Each is found once and then remembered."""

    def __init__(self) -> None:
        self._found: dict[ir.Value, Grid | None] = {}

    def grid(self, value: ir.Value | None, depth: int = 0) -> Grid | None:
        """Return the grid that `value` is; None if it is not known to be one."""
        if value is None or value.dtype != DataType.INT64 or depth > _MAX_DEPTH:
            return None
        if value not in self._found:
            self._found[value] = self._find(value, depth + 1)
        return self._found[value]

    def condition(self, value: ir.Value | None) -> Grid | None:
        """Return a grid that is at least 0 exactly where the boolean `value` is true.

        None if `value` is not a comparison of two grids."""
        node = None if value is None else value.producer()
        if node is None or node.op_type not in COMPARISONS or node.domain != "":
            return None
        upside_down, bound = COMPARISONS[node.op_type]
        larger, smaller = reversed(node.inputs) if upside_down else node.inputs
        grid = _combined(self.grid(larger), self.grid(smaller), -1)
        offset = None if grid is None else symbolic.subtract(grid.offset, bound)
        return None if grid is None or offset is None else replace(grid, offset=offset)

    def _find(self, value: ir.Value, depth: int) -> Grid | None:
        shape, elements = shape_of(value), elements_of(value)
        if shape is None:
            return None
        if elements is not None and len(elements) == 1 and elements[0] is not None:
            return Grid(shape, (0,) * len(shape), elements[0])
        node = value.producer()
        if node is None or node.domain != "":
            tensor = constant(value)
            return None if tensor is None or tensor.size > _MAX_CONSTANT else grid_of(tensor.numpy())
        match node.op_type:
            case "Range":
                return _of_range(node, shape)
            case "Unsqueeze" | "Squeeze" | "Reshape" | "Flatten":
                return _reshaped(self.grid(node.inputs[0], depth), shape)
            case "Slice":
                return _sliced(node, self.grid(node.inputs[0], depth), shape)
            case "Expand":
                return _expanded(self.grid(node.inputs[0], depth), shape)
            case "Add" | "Sub":
                sign = 1 if node.op_type == "Add" else -1
                return _combined(self.grid(node.inputs[0], depth), self.grid(node.inputs[1], depth), sign)
            case "Mul":
                return _product(self.grid(node.inputs[0], depth), self.grid(node.inputs[1], depth))
        return None


def counted(nodes: Iterable[ir.Node]) -> set[ir.Value]:
    """Return the values of a graph that only count. `nodes` must be in topological order.

    These are a Range whose bounds are numbers or sizes, reshaped, expanded and cast forms of it, and sums, differences
    and products of one of them and a constant number."""
    found: set[ir.Value] = set()
    for node in nodes:
        if node.domain != "":
            continue
        read = [value for value in node.inputs if value is not None]
        if node.op_type == "Range":
            counts = all(None not in (elements_of(bound) or (None,)) for bound in read)
        elif node.op_type in _SHAPING:
            counts = bool(read) and read[0] in found
        else:
            numbers = [tensor for value in read if (tensor := constant(value)) is not None and tensor.size == 1]
            counts = node.op_type in _SHIFTING and len(numbers) == 1 and not found.isdisjoint(read)
        if counts:
            found.update(node.outputs)
    return found


def is_all_true(value: ir.Value | None) -> bool:
    """Tell whether the boolean `value` is `ones(...)`, in whatever shape.

    It looks through casts and changes of shape: no cast turns a one into a zero."""
    node = None if value is None else value.producer()
    for _ in range(_MAX_DEPTH):
        if node is None or node.op_type not in _SHAPING or node.inputs[0] is None:
            break
        value, node = node.inputs[0], node.inputs[0].producer()
    tensor = constant(value)
    if tensor is not None:
        return 0 < tensor.size <= _MAX_CONSTANT and bool((tensor.numpy() == 1).all())
    if node is None or node.op_type != "ConstantOfShape" or node.domain != "":
        return False
    fill = node.attributes.get("value")
    return fill is not None and not fill.is_ref() and bool((fill.as_tensor().numpy() == 1).all())


def grid_of(array: np.ndarray[Any, Any]) -> Grid | None:
    """Return an array of integers as a grid, if it grows evenly along each axis; else None."""
    if not 0 < array.size <= _MAX_CONSTANT:
        return None
    corner = (0,) * array.ndim
    offset = int(array[corner])
    steps = [
        int(array[(*corner[:axis], 1, *corner[axis + 1 :])]) - offset if size > 1 else 0
        for axis, size in enumerate(array.shape)
    ]
    expected = np.asarray(offset)
    for axis, step in enumerate(steps):
        along = [-1 if other == axis else 1 for other in range(array.ndim)]
        expected = expected + step * np.arange(array.shape[axis]).reshape(along)
    return Grid(array.shape, tuple(steps), offset) if (array == expected).all() else None


def _of_range(node: ir.Node, shape: Shape) -> Grid | None:
    start, delta = (elements_of(node.inputs[i]) for i in (0, 2))
    if start is None or delta is None or len(shape) != 1:
        return None
    first, step = start[0], delta[0]
    return None if first is None or not isinstance(step, int) else Grid(shape, (step,), first)


def _sliced(node: ir.Node, grid: Grid | None, shape: Shape) -> Grid | None:
    """Return the part of a grid of one axis that begins at a known place and goes on by a known step."""
    starts = elements_of(node.inputs[1]) if len(node.inputs) > 2 else None  # attributes in old opsets
    steps = elements_of(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else (1,)
    if grid is None or len(grid.shape) != 1 or starts is None or steps is None or len(starts) != 1:
        return None
    start, step = starts[0], steps[0]
    if not isinstance(start, int) or not isinstance(step, int) or start < 0 or step < 1:
        return None
    stride, skipped = symbolic.multiply(grid.strides[0], step), symbolic.multiply(grid.strides[0], start)
    offset = None if skipped is None else symbolic.add(grid.offset, skipped)
    return None if stride is None or offset is None else Grid(shape, (stride,), offset)


def _reshaped(grid: Grid | None, shape: Shape) -> Grid | None:
    """Return the grid in another shape, if that only adds or removes axes of size 1; else None."""
    if grid is None or [size for size in grid.shape if size != 1] != [size for size in shape if size != 1]:
        return None
    strides = iter([grid.strides[axis] for axis in grid.axes()])
    return Grid(shape, tuple(next(strides) if size != 1 else 0 for size in shape), grid.offset)


def _expanded(grid: Grid | None, shape: Shape) -> Grid | None:
    """Return the grid broadcast to `shape`; None if that is not possible."""
    if grid is None or len(grid.shape) > len(shape):
        return None
    new = len(shape) - len(grid.shape)
    strides: list[Dim] = [0] * new
    for size, stride, wanted in zip(grid.shape, grid.strides, shape[new:], strict=True):
        if size not in (1, wanted):
            return None
        strides.append(stride if size != 1 else 0)
    return Grid(shape, tuple(strides), grid.offset)


def _combined(left: Grid | None, right: Grid | None, sign: int) -> Grid | None:
    """Return the grid `left + sign * right`; None if it is not known to be one."""
    if left is None or right is None:
        return None
    shape = _broadcast(left.shape, right.shape)
    first, second = (_expanded(grid, shape) for grid in (left, right)) if shape is not None else (None, None)
    if shape is None or first is None or second is None:
        return None
    combine = symbolic.add if sign > 0 else symbolic.subtract
    strides = [combine(a, b) for a, b in zip(first.strides, second.strides, strict=True)]
    offset = combine(first.offset, second.offset)
    known = tuple(stride for stride in strides if stride is not None)
    return Grid(shape, known, offset) if offset is not None and len(known) == len(strides) else None


def _product(left: Grid | None, right: Grid | None) -> Grid | None:
    """Return the product of two grids, if one of them is a single number; else None."""
    if left is None or right is None:
        return None
    grid, factor = (left, right) if not right.axes() else (right, left)
    shape = _broadcast(left.shape, right.shape)
    if factor.axes() or shape is None:
        return None
    strides = [symbolic.multiply(stride, factor.offset) for stride in grid.strides]
    offset = symbolic.multiply(grid.offset, factor.offset)
    known = tuple(stride for stride in strides if stride is not None)
    if offset is None or len(known) != len(strides):
        return None
    return _expanded(Grid(grid.shape, known, offset), shape)


def _broadcast(left: Shape, right: Shape) -> Shape | None:
    """Return the broadcast shape, if each size is 1 on one side or the same on both; else None."""
    rank = max(len(left), len(right))
    a, b = ((1,) * (rank - len(shape)) + shape for shape in (left, right))
    if any(x != y and x != 1 and y != 1 for x, y in zip(a, b, strict=True)):
        return None
    return tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))
