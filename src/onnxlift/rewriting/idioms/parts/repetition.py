"""Elements that several nodes repeat one by one along an axis."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import is_private, made_by
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.shapes import Shape, shape_of
from onnxlift.ir.inference import symbolic


@dataclass
class Repetition:
    """A tensor that repeats each element of `x` along `axis`, after `x` got the `added` axes.

    `nodes` are the nodes that do this.
    """

    x: ir.Value
    added: list[int]
    shape: Shape
    axis: int
    repeats: int
    nodes: list[ir.Node]
    is_closed: bool
    """True if nobody else reads a value in between."""


def repetition(edit: Edit, value: ir.Value) -> Repetition | None:
    """Return the repetition that `value` is, if it is one."""
    join = made_by(edit, value, "Reshape", "Flatten")
    wide = made_by(edit, join.inputs[0], "Expand", "Tile", "Concat") if join is not None else None
    new = made_by(edit, wide.inputs[0], "Unsqueeze") if wide is not None else None
    if join is None or wide is None or new is None or new.inputs[0] is None:
        return None
    copies = len(wide.inputs) if wide.op_type == "Concat" else 1
    if any(part is not wide.inputs[0] for part in wide.inputs[:copies]):
        return None
    narrow, repeated, joined = (shape_of(each.outputs[0]) for each in (new, wide, join))
    axes = axes_of(new)
    if axes is None or narrow is None or repeated is None or len(narrow) != len(repeated):
        return None
    changed = [axis for axis, sizes in enumerate(zip(narrow, repeated, strict=True)) if sizes[0] != sizes[1]]
    added = [axis % len(narrow) for axis in axes]
    if not changed or changed[0] not in added or changed[0] == 0:
        return None
    axis, repeats = changed[0], repeated[changed[0]]
    if not isinstance(repeats, int):
        return None
    if joined != (*narrow[: axis - 1], symbolic.multiply(narrow[axis - 1], repeats), *narrow[axis + 1 :]):
        return None
    return Repetition(
        new.inputs[0],
        added=[other - (other > axis) for other in sorted(added) if other != axis],
        shape=(*narrow[:axis], *narrow[axis + 1 :]),
        axis=axis - 1,
        repeats=repeats,
        nodes=[join, wide, new],
        is_closed=is_private(edit, join.inputs[0]) and is_private(edit, wide.inputs[0], readers=copies),
    )
