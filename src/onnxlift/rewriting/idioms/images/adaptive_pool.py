"""Means over windows that divide an image as evenly as its size allows are an adaptive pool.

    windows = Transpose(GatherND(Transpose(x, 2 3 0 1), table), 4 5 0 1 2 3)      (n, c, rows, height, columns, width)

    ReduceMean(windows, axes 3 and 5)                                        ->   AdaptiveAvgPool(x, rows, columns)
    (windows[:, :, :, 0, :, 0] + windows[:, :, :, 0, :, 1] + ...) / counts   ->   AdaptiveAvgPool(x, rows, columns)
    Squeeze(AdaptiveAvgPool(Unsqueeze(x, -2), 1, columns), -2)               ->   AdaptiveAvgPool(x, columns)

x may have a batch or not. The second rule is for windows of different sizes: all are as large as the largest, and the
places that a smaller one lacks are zeros, by `Where(mask, 0, windows)`, once for each direction.

If an axis of L elements becomes k, window i goes from floor(i * L / k) to ceil((i + 1) * L / k). The table must have
all these elements in this order, the masks must cover the places behind them and nothing else, and the counts must be
the numbers of these elements. So L must be known. Each place of the windows is added once. Not if another node reads a
value in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import axes_of, permutation
from onnxlift.ir.graph.constants import constant, number
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import Shape, rank, shape_of
from onnxlift.ir.graph.types import is_float
from onnxlift.stages import step

_LARGEST = 1 << 20
"""Tables with more entries are not looked at."""
_POOL = "AdaptiveAvgPool"


@step("adaptive-pool")
def run(model: ir.Model) -> int:
    """Recognise adaptive pools; return how many."""
    return sweep(model, {"ReduceMean": _average, "Div": _average_of_sums}) + sweep(model, {"Squeeze": _signal})


@dataclass
class _Windows:
    """Windows of the last two axes of `x`: a table has the place of each of their elements.

    The axes of the table are (rows, height, columns, width), and a last one of two for the place in `x`.
    """

    x: ir.Value
    size: Shape
    """Height and width of `x`."""
    table: Array
    missing: Array
    """True for the places of the windows that are zeros instead of elements of `x`."""
    nodes: list[ir.Node]
    """The nodes that make the windows, the last one first."""

    def are_adaptive(self, counts: Array | None) -> bool:
        """Tell whether these are the windows of an adaptive pool.

        `counts` are the numbers of elements of the windows. Without it, each window has elements at all its places.
        """
        rows, tall, columns, wide, _ = self.table.shape
        height, width = self.size
        if not isinstance(height, int) or not isinstance(width, int) or 0 in self.table.shape:
            return False
        (tops, heights), (lefts, widths) = _spans(height, rows), _spans(width, columns)
        down, across = np.arange(tall), np.arange(wide)
        has_row, has_column = down < heights[:, None], across < widths[:, None]
        present = has_row[:, :, None, None] & has_column
        elements = np.broadcast_arrays((tops[:, None] + down)[:, :, None, None], lefts[:, None] + across)
        places, sizes = np.stack(elements, axis=-1), heights[:, None] * widths
        return (
            heights.max() <= tall
            and widths.max() <= wide
            and np.array_equal(self.missing, ~present)
            and np.array_equal(self.table[present], places[present])
            and (counts is None or _stretches(counts.shape, sizes.shape))
            and bool(np.all(sizes == (tall * wide if counts is None else counts)))
        )


def _spans(size: int, count: int) -> tuple[Array, Array]:
    """Return the beginnings of `count` windows over an axis, and their lengths."""
    steps = np.arange(count)
    starts, ends = steps * size // count, -(-(steps + 1) * size // count)
    return starts, ends - starts


def _stretches(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Tell whether an array of this shape broadcasts to the target shape."""
    fits = zip(reversed(shape), reversed(target), strict=False)
    return len(shape) <= len(target) and all(have in (1, want) for have, want in fits)


def _average(edit: Edit, node: ir.Node) -> None:
    _replace(edit, node, _averaged(edit, node), counts=None)


def _average_of_sums(edit: Edit, node: ir.Node) -> None:
    tensor = constant(node.inputs[1])
    if tensor is not None and tensor.size <= _LARGEST:  # for speed
        _replace(edit, node, _added(edit, node.inputs[0]), tensor.numpy())


def _replace(edit: Edit, node: ir.Node, found: _Windows | None, counts: Array | None) -> None:
    if found is not None and is_float(found.x) and found.are_adaptive(counts):
        rows, _, columns, *_ = found.table.shape
        edit.replace(node, _POOL, [found.x], [ir.AttrInt64s("sizes", [rows, columns])], domain=DOMAIN)
        drop_unused(edit, found.nodes)


def _signal(edit: Edit, node: ir.Node) -> None:
    """Turn a pool of an image that is one pixel high into a pool along one axis."""
    pool = made_by(edit, node.inputs[0], _POOL, domain=DOMAIN)
    raised = made_by(edit, pool.inputs[0], "Unsqueeze") if pool is not None else None
    axes = rank(node.inputs[0])
    if pool is None or raised is None or axes is None or not is_private(edit, node.inputs[0]):
        return
    above = ((-2,), (axes - 2,))
    if axes_of(node) in above and axes_of(raised) in above:
        sizes = ir.AttrInt64s("sizes", attribute(pool, "sizes", ())[1:])
        edit.replace(node, _POOL, [raised.inputs[0]], [sizes], domain=DOMAIN, named_by=pool)
        drop_unused(edit, [pool, raised])


def _averaged(edit: Edit, node: ir.Node) -> _Windows | None:
    """Return the windows whose means a ReduceMean computes."""
    value, axes = node.inputs[0], axes_of(node)
    count = rank(value)
    if count is None or axes is None or attribute(node, "keepdims", 1) != 0 or not is_private(edit, value):
        return None
    return _windows(edit, value) if sorted(axis % count for axis in axes) == [count - 3, count - 1] else None


def _added(edit: Edit, total: ir.Value | None) -> _Windows | None:
    """Return the windows if `total` is the sum of all their places, each added once."""
    adds: list[ir.Node] = []
    taken: list[ir.Node] = []
    values = [total]
    while values:
        value = values.pop()
        if not is_private(edit, value):
            return None
        if (add := made_by(edit, value, "Add")) is not None:
            adds.append(add)
            values.extend(add.inputs)
        elif (element := made_by(edit, value, "Gather")) is not None:
            taken.append(element)
        else:
            return None
    rows = {element.inputs[0]: made_by(edit, element.inputs[0], "Gather") for element in taken}
    known = [row for row in rows.values() if row is not None]
    sources = {row.inputs[0] for row in known}
    found = _windows(edit, sources.pop()) if len(sources) == 1 else None
    if found is None:
        return None
    _, tall, _, wide, _ = found.table.shape
    places = sorted((_place(rows[element.inputs[0]], -3), _place(element, -1)) for element in taken)
    if places != [(row, column) for row in range(tall) for column in range(wide)]:
        return None
    readers = [(known[0].inputs[0], tall), *((row.outputs[0], wide) for row in known)]
    if any(value is None or len(value.uses()) != count or edit.is_output(value) for value, count in readers):
        return None
    found.nodes = [*adds, *taken, *known, *found.nodes]
    return found


def _place(gather: ir.Node | None, axis: int) -> float:
    """Return the index that a Gather takes of this axis, which it removes; -1 if it does something else."""
    axes = None if gather is None else rank(gather.inputs[0])
    if gather is None or axes is None or rank(gather.inputs[1]) != 0:
        return -1
    along, place = attribute(gather, "axis", 0), number(gather.inputs[1])
    return -1 if place is None or along not in (axis, axes + axis) else place


def _windows(edit: Edit, value: ir.Value | None) -> _Windows | None:
    """Return the windows that `value` consists of, with zeros where masks say so."""
    masks: list[ir.TensorProtocol] = []
    nodes: list[ir.Node] = []
    while (filled := made_by(edit, value, "Where")) is not None and len(masks) < 2:
        tensor = constant(filled.inputs[0])
        if tensor is None or number(filled.inputs[1]) != 0 or rank(filled.inputs[1]) != 0:
            return None
        masks.append(tensor)
        nodes.append(filled)
        value = filled.inputs[2]
        if not is_private(edit, value):
            return None
    back = made_by(edit, value, "Transpose")
    taken = made_by(edit, back.inputs[0], "GatherND") if back is not None else None
    front = made_by(edit, taken.inputs[0], "Transpose") if taken is not None else None
    if back is None or taken is None or front is None or not is_private(edit, taken.outputs[0]):
        return None
    x, table, first, last = front.inputs[0], constant(taken.inputs[1]), permutation(front), permutation(back)
    shape = shape_of(x)
    if x is None or shape is None or table is None or first is None or last is None:
        return None
    outer = len(shape) - 2
    if list(first) != [outer, outer + 1, *range(outer)] or list(last) != [*range(4, 4 + outer), 0, 1, 2, 3]:
        return None
    # The number of axes rules out batch_dims, as each entry of an adaptive pool's table has two places.
    if outer not in (1, 2) or len(table.shape) != 5 or table.size > _LARGEST:
        return None
    missing = np.zeros(table.shape.numpy()[:4], bool)
    if not all(_stretches(mask.shape.numpy(), missing.shape) for mask in masks):
        return None
    for mask in masks:
        missing |= mask.numpy()
    return _Windows(x, shape[-2:], table.numpy(), missing, [*nodes, back, taken, front])
