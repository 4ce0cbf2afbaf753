"""Replace tables of positions, cut to the input's length, by positions, and tables of one number by that number.

1. Slice(table, 0, n)                ->  Range(0, n, 1)                  if the table is 0, 1, 2, ...
2. GatherElements(table, i)          ->  Expand(number, Shape(i))        if the table holds one number throughout
3. Transpose(Gather(table, i), p)    ->  Gather(turned table, i, axis)   if the table has no name

PyTorch modules keep such tables as buffers. Rule 1 needs a table of more than one row. If n were larger than the table,
Range would be longer than the Slice. So the positions must meet a size n further on, by broadcasting or an Expand: a
run with such an n would fail there, and Range gives the same for all runs that succeed. Axes of size 1 around the
positions are added again.

Rule 2 reads the same number wherever the indices point to; the table may be repeated by an Expand. Rule 3 is for a list
of indices along the first axis: PyTorch's exporter writes `table[:, i]` so, and turns the table beforehand. It applies
if nobody else reads the table or the gathered value.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.axes import permutation, static_slice
from onnxlift.ir.graph.constants import constant, contiguous
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import elements_of, shape_of
from onnxlift.ir.graph.types import DataType
from onnxlift.ir.inference import symbolic
from onnxlift.ir.inference.positions import Positions
from onnxlift.ir.inference.shape_rules import BROADCASTING
from onnxlift.ir.origin.tensors import may_be_trained, origin_of
from onnxlift.stages import step

_MAX_TABLE = 1 << 16
_MAX_STEPS = 32


@step("tables", repeats=True)
def run(model: ir.Model) -> int:
    """Replace tables by what they hold; return how many reads of tables were replaced."""
    return sweep(model, {"Slice": _cut, "GatherElements": _filled, "Transpose": _turned})


def _cut(edit: Edit, node: ir.Node) -> None:
    """Apply rule 1."""
    cut = static_slice(node) if constant(node.inputs[0]) is not None else None
    if cut is None or edit.opset(node) < 11:
        return
    table, _, end = node.inputs[:3]
    starts, axes, steps = cut
    ends, grid, shape = elements_of(end), Positions().grid(table), shape_of(node.outputs[0])
    if grid is None or shape is None or ends is None or len(ends) != 1 or not isinstance(ends[0], str) or end is None:
        return
    if starts != (0,) or steps != (1,) or end.dtype != DataType.INT64:
        return
    axis = axes[0] % len(shape)
    rows, length = grid.shape[axis], ends[0]
    if grid.axes() != [axis] or (grid.offset, grid.strides[axis]) != (0, 1) or not isinstance(rows, int):
        return
    if rows < 2 or shape[axis] != symbolic.minimum(rows, length) or not _meets(edit, node.outputs[0], axis, length):
        return
    name = f"{node.outputs[0].name}.positions"
    zero, one = (edit.constant(f"{name}.{word}", np.array(number)) for word, number in (("start", 0), ("step", 1)))
    none = edit.constant(f"{name}.none", np.zeros(0, np.int64))
    limit = edit.insert(node, "Reshape", [end, none], like=end, shape=(), name=f"{name}.limit")
    positions = edit.insert(node, "Range", [zero, limit, one], like=end, shape=(length,), name=name)
    inputs, attributes = edit.axes(node, [other for other in range(len(shape)) if other != axis])
    if len(shape) == 1:
        edit.bypass(node, positions)
    else:
        edit.replace(node, "Unsqueeze", [positions, *inputs], attributes)


def _meets(edit: Edit, value: ir.Value, axis: int, length: str) -> bool:
    """Tell whether an axis of `value`, which may be shorter than `length`, is broadcast with an axis of that size."""
    shape = shape_of(value)
    pending = [value]
    clipped = None if shape is None else shape[axis]
    for position in range(_MAX_STEPS):
        if position >= len(pending):
            return False
        before = shape_of(pending[position]) or ()
        for user, _ in pending[position].uses():
            for output in user.outputs if user.graph is edit.graph else ():
                after = shape_of(output) or ()
                if is_standard(user, *BROADCASTING, "Expand") and any(
                    old == clipped and new == length for old, new in zip(before[::-1], after[::-1], strict=False)
                ):
                    return True
                if clipped in after:
                    pending.append(output)
    return False


def _filled(edit: Edit, node: ir.Node) -> None:
    """Apply rule 2."""
    table, indices = node.inputs
    repeat = None if table is None else table.producer()
    table = repeat.inputs[0] if repeat is not None and is_standard(repeat, "Expand") else table
    tensor = constant(table)
    if tensor is None or indices is None or may_be_trained(table) or not 0 < tensor.size <= _MAX_TABLE:
        return
    array = tensor.numpy()
    if array.dtype.kind not in "biuf" or not (array == array.flat[0]).all() or attribute(node, "axis", 0) is None:
        return
    if array.dtype.kind == "f" and len({bool(sign) for sign in np.signbit(array).flat}) != 1:
        return  # it has zeros of both signs
    number = edit.constant(f"{node.outputs[0].name}.number", array.reshape(-1)[:1].reshape(()))
    edit.replace(node, "Expand", [number, edit.shape(node, indices)])


def _turned(edit: Edit, node: ir.Node) -> None:
    """Apply rule 3."""
    order, gather = permutation(node), None if node.inputs[0] is None else node.inputs[0].producer()
    if order is None or gather is None or not is_standard(gather, "Gather") or attribute(gather, "axis", 0) != 0:
        return
    table, indices = gather.inputs
    tensor, rows = constant(table), shape_of(indices)
    if table is None or tensor is None or rows is None or len(rows) != 1 or tensor.size > _MAX_TABLE:
        return
    is_nameless = origin_of(table).has_lost_its_name
    if is_nameless and len(table.uses()) == 1 and len(gather.outputs[0].uses()) == 1:
        turned = edit.constant(f"{node.outputs[0].name}.table", contiguous(tensor.numpy().transpose(order)))
        edit.replace(node, "Gather", [turned, indices], [ir.AttrInt64("axis", list(order).index(0))])
