"""Slices along several axes, one after the other, are one slice.

    Slice(Slice(x, along rows), along columns)   ->   Slice(x, along rows and columns)      `mask[:, :, :seq, :seq]`

The axes of both must be known and different. It applies only if nothing but slices of this kind reads the first slice,
so that it is no longer needed. Sound because a slice along one axis does not depend on the other axes. Runs last: other
idioms look for single slices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import made_by
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.shapes import rank, static_elements
from onnxlift.stages import step


@dataclass
class _Cut:
    """A Slice: its bounds, as values, and the axes and steps that they are for."""

    starts: ir.Value
    ends: ir.Value
    axes: tuple[int, ...]
    steps: tuple[int, ...]


@step(
    "slices",
    after={
        "rotary": "it looks for single cuts",
        "multihead-attention": "it follows queries, keys and values through single cuts",
        "circular-pad": "it looks for single cuts",
        "roll": "it looks for single cuts",
        "split": "it looks for single cuts",
    },
)
def run(model: ir.Model) -> int:
    """Merge slices; return how many."""
    return sweep(model, {"Slice": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    cut = _cut(node)
    first = made_by(edit, node.inputs[0], "Slice") if cut is not None else None
    before = _cut(first) if first is not None else None
    if cut is None or first is None or before is None or edit.is_output(first.outputs[0]):
        return
    others = [_cut(user) for user, _ in first.outputs[0].uses()]
    if any(other is None or not {*before.axes}.isdisjoint(other.axes) for other in others):
        return
    cuts = sorted((before, cut), key=lambda each: each.axes)
    axes = [axis for each in cuts for axis in each.axes]
    joined = {
        "starts": _joined(edit, node, "starts", [each.starts for each in cuts], len(axes)),
        "ends": _joined(edit, node, "ends", [each.ends for each in cuts], len(axes)),
        "axes": edit.constant(f"{node.outputs[0].name}.axes", np.array(axes, np.int64)),
        "steps": edit.constant(f"{node.outputs[0].name}.steps", np.array([s for c in cuts for s in c.steps], np.int64)),
    }
    edit.replace(node, "Slice", [first.inputs[0], *joined.values()])


def _joined(edit: Edit, node: ir.Node, word: str, parts: list[ir.Value], length: int) -> ir.Value:
    """Return the bounds of both slices, one after the other."""
    name = f"{node.outputs[0].name}.{word}"
    known = [numbers for part in parts if (numbers := static_elements(part)) is not None]
    if len(known) == len(parts):
        return edit.constant(name, np.array([number for numbers in known for number in numbers], np.int64))
    return edit.insert(node, "Concat", parts, [ir.AttrInt64("axis", 0)], like=parts[0], shape=[length], name=name)


def _cut(node: ir.Node) -> _Cut | None:
    """Return what a Slice cuts, if its axes and steps are known."""
    axes_of_x = rank(node.inputs[0]) if is_standard(node, "Slice") and len(node.inputs) > 3 else None
    if axes_of_x is None:
        return None
    _, starts, ends, axes, *rest = node.inputs
    known = static_elements(axes)
    if known is None or starts is None or ends is None:
        return None
    step = next(iter(rest), None)
    steps = static_elements(step) if step is not None else (1,) * len(known)
    if steps is None or {starts.dtype, ends.dtype} != {ir.DataType.INT64}:
        return None
    return _Cut(starts, ends, tuple(axis % axes_of_x for axis in known), steps)
