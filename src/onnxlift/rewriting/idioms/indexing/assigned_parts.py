"""Elements that are written at constant or counted positions are an assignment to a part of a tensor.

1. ScatterND(x, indices of a box, u)                 ->  SliceScatter(x, u) or SelectScatter(x, u) along one axis
2. ScatterElements(x, Expand(i, Shape(u)), u, axis)  ->  SelectScatter(x, Squeeze(u, axis)), if u has size 1 there
3. 1 between two transposes, Transpose(ScatterND(Transpose(x), ..., Transpose(u)))      ->  1, along another axis

`x.slice_scatter(u, dim=1, start=1, end=3)` is x with `x[:, 1:3] = u`, and `x.select_scatter(u, dim=1, index=0)` is x
with `x[:, 0] = u`: exporters write such assignments so, since nothing in a graph is changed in place. For a part along
several axes, the part along the first is taken, written, and put back.

Rule 1 needs indices that go over a box (`parts/boxes.py`), so that no place is written twice. It must not be all of x,
and there must be no reduction. Rule 2 needs indices that are one number, and updates that have all of x along the other
axes. Rule 3 needs the same transpose of data and updates; the transpose behind them goes if it is their inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, made_by
from onnxlift.ir.graph.axes import axes_of, axis_of, permutation
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import Shape, shape_of
from onnxlift.ir.graph.types import DataType
from onnxlift.ir.inference.positions import Positions
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.rewriting.idioms.indexing.parts.boxes import Side, box_of
from onnxlift.stages import step

_TYPES = frozenset(
    {
        DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16, DataType.BOOL,
        DataType.INT64, DataType.INT32, DataType.INT16, DataType.INT8, DataType.UINT8,
    }
)  # fmt: skip
_END = 2**63 - 1
_MOST_INDICES = 1 << 16

Written = tuple[str, list[ir.Value], list[ir.Attr]]
"""An operator that writes a part, its inputs and its attributes."""


@step("assigned-parts")
def run(model: ir.Model) -> int:
    """Recognise assignments to parts; return how many."""
    positions = Positions()
    return sweep(model, {"ScatterND": partial(_visit, positions=positions), "ScatterElements": _visit_elements})


def _visit(edit: Edit, node: ir.Node, positions: Positions) -> None:
    data, indices, updates = node.inputs
    sizes = shape_of(data)
    if data is None or updates is None or sizes is None or not _is_plain(node):
        return
    sides = box_of(edit, positions, indices, sizes)
    if not sides:
        return
    order = _common_order(edit, data, updates)
    if order is None:
        _replace(edit, node, _written(edit, node, data, updates, sides))
    else:
        _replace_between_transposes(edit, node, sides, order)


def _visit_elements(edit: Edit, node: ir.Node) -> None:
    data, indices, updates = node.inputs
    sizes, written = shape_of(data), shape_of(updates)
    index = _only_number(edit, indices)
    if data is None or updates is None or sizes is None or written is None or index is None or not _is_plain(node):
        return
    axis = axis_of(node, len(sizes))
    if axis is not None and written == (*sizes[:axis], 1, *sizes[axis + 1 :]):
        _replace(edit, node, _written(edit, node, data, updates, [Side(axis, 1, index, index + 1)]))


def _is_plain(node: ir.Node) -> bool:
    return attribute(node, "reduction", "none") == "none" and node.outputs[0].dtype in _TYPES


def _only_number(edit: Edit, value: ir.Value | None) -> int | None:
    """Return the number that all elements of `value` are: a constant, or one that is expanded."""
    expand = made_by(edit, value, "Expand")
    filled = made_by(edit, value, "ConstantOfShape")
    tensor = constant(value if expand is None else expand.inputs[0])
    if filled is not None:
        tensor = attribute(filled, "value", None)
    if tensor is None or tensor.size > _MOST_INDICES:  # for speed
        return None
    numbers = np.unique(tensor.numpy())
    return int(numbers[0]) if numbers.size == 1 else None


def _replace(edit: Edit, node: ir.Node, written: Written) -> None:
    operator, inputs, attributes = written
    edit.replace(node, operator, inputs, attributes, domain=DOMAIN)


def _common_order(edit: Edit, data: ir.Value, updates: ir.Value) -> Sequence[int] | None:
    """Return the order in which both tensors have been transposed, if it is the same; otherwise None."""
    first, second = (made_by(edit, value, "Transpose") for value in (data, updates))
    order = None if first is None or second is None else permutation(first)
    return order if second is not None and order == permutation(second) else None


def _replace_between_transposes(edit: Edit, node: ir.Node, sides: Sequence[Side], order: Sequence[int]) -> None:
    """Apply rule 3: write before the transposes, and transpose the result."""
    before = [made_by(edit, value, "Transpose") for value in (node.inputs[0], node.inputs[2])]
    data, updates = (transpose.inputs[0] for transpose in before if transpose is not None)
    assert data is not None and updates is not None
    moved = sorted((replace(side, axis=order[side.axis]) for side in sides), key=lambda side: side.axis)
    operator, inputs, attributes = _written(edit, node, data, updates, moved)
    shape, name = shape_of(data) or (), f"{node.outputs[0].name}.written"
    result = edit.insert(node, operator, inputs, attributes, like=data, shape=shape, name=name, domain=DOMAIN)
    after = edit.replace(node, "Transpose", [result], [ir.AttrInt64s("perm", order)])
    for reader, _ in tuple(after.outputs[0].uses()):
        back = permutation(reader)
        if back is not None and [order[axis] for axis in back] == [*range(len(order))]:
            edit.bypass(reader, result)
    drop_unused(edit, [after, *(transpose for transpose in before if transpose is not None)])


def _written(edit: Edit, node: ir.Node, data: ir.Value, updates: ir.Value, sides: Sequence[Side]) -> Written:
    """Return what writes `updates` into the part of `data`. They have all axes of the data."""
    single = [side.axis for side in sides if side.is_single]
    return _nested(edit, node, data, _squeezed(edit, node, updates, single) if single else updates, sides)


def _nested(edit: Edit, node: ir.Node, data: ir.Value, updates: ir.Value, sides: Sequence[Side]) -> Written:
    """Return what writes `updates`, which lack the axes of single places."""
    side, *others = sides
    if others:
        part = _taken(edit, node, data, side)
        moved = [replace(other, axis=other.axis - side.is_single) for other in others]
        operator, inputs, attributes = _nested(edit, node, part, updates, moved)
        shape, name = shape_of(part) or (), f"{node.outputs[0].name}.part"
        updates = edit.insert(node, operator, inputs, attributes, like=data, shape=shape, name=name, domain=DOMAIN)
    if side.is_single:
        numbers = {"axis": side.axis, "index": side.start}
    else:
        numbers = {"axis": side.axis, "start": side.start, "step": side.step}
        numbers |= {} if side.end is None else {"end": side.end}
    attributes = [ir.AttrInt64(name, number) for name, number in numbers.items()]
    return "SelectScatter" if side.is_single else "SliceScatter", [data, updates], attributes


def _squeezed(edit: Edit, node: ir.Node, value: ir.Value, axes: Sequence[int]) -> ir.Value:
    """Return a value without these axes of size 1."""
    shape = shape_of(value) or ()
    unsqueeze = made_by(edit, value, "Unsqueeze")
    added = [axis % len(shape) for axis in (axes_of(unsqueeze) or ())] if unsqueeze is not None else []
    if unsqueeze is not None and unsqueeze.inputs[0] is not None and sorted(added) == sorted(axes):
        return unsqueeze.inputs[0]
    tensor = constant(value)
    if tensor is not None and origin_of(value).is_programs_own:
        return edit.constant("constant", np.squeeze(tensor.numpy(), tuple(axes)))
    inputs, attributes = edit.axes(node, axes)
    rest = [size for axis, size in enumerate(shape) if axis not in axes]
    return edit.insert(node, "Squeeze", [value, *inputs], attributes, like=value, shape=rest, name=f"{value.name}.part")


def _taken(edit: Edit, node: ir.Node, data: ir.Value, side: Side) -> ir.Value:
    """Return the part of `data` along one axis."""
    shape: Shape = shape_of(data) or ()
    name, along = f"{data.name}.part", [ir.AttrInt64("axis", side.axis)]
    if side.is_single:
        inputs, rest = [data, edit.constant("index", np.array(side.start))], shape[: side.axis] + shape[side.axis + 1 :]
        return edit.insert(node, "Gather", inputs, along, like=data, shape=rest, name=name)
    bounds = [side.start, _END if side.end is None else side.end, side.axis, side.step]
    inputs = [data, *(edit.constant("bound", np.array([bound], np.int64)) for bound in bounds)]
    rest = (*shape[: side.axis], side.size, *shape[side.axis + 1 :])
    return edit.insert(node, "Slice", inputs, like=data, shape=rest, name=name)
