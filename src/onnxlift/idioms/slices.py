"""Cuts along several axes, one after the other, are one cut.

    Slice(Slice(x, along rows), along columns)   ->   Slice(x, along rows and columns)      `mask[:, :, :seq, :seq]`

if the axes are known, and others. Only where the first cut is read by nothing but such cuts, so that it is no longer
needed. Sound because what is cut along one axis does not depend on the others. Runs last: other idioms look for single
cuts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ..ir.node_view import shape_of, static_elements
from ..passes.edit import Edit, is_standard, sweep
from .match import made_by, rank


@dataclass
class _Cut:
    """The bounds of a Slice, as values, and the axes and steps that they are for."""

    starts: ir.Value
    ends: ir.Value
    axes: tuple[int, ...]
    steps: tuple[int, ...]


def run(model: ir.Model) -> int:
    """Merge cuts; gives how many."""
    return sweep(model, _visit)


def _visit(edit: Edit, node: ir.Node) -> None:
    cut = _cut(node)
    first = made_by(edit, node.inputs[0], "Slice") if cut is not None else None
    before = _cut(first) if first is not None else None
    if cut is None or first is None or before is None or edit.is_output(first.outputs[0]):
        return
    others = [_cut(user) if index == 0 else None for user, index in first.outputs[0].uses()]
    if any(other is None or not {*before.axes}.isdisjoint(other.axes) for other in others):
        return
    cuts = sorted((before, cut), key=lambda each: each.axes)
    joined = {
        "starts": _joined(edit, node, "starts", [each.starts for each in cuts]),
        "ends": _joined(edit, node, "ends", [each.ends for each in cuts]),
        "axes": edit.constant(f"{node.outputs[0].name}.axes", np.array([a for c in cuts for a in c.axes], np.int64)),
        "steps": edit.constant(f"{node.outputs[0].name}.steps", np.array([s for c in cuts for s in c.steps], np.int64)),
    }
    edit.replace(node, "Slice", [first.inputs[0], *joined.values()])


def _joined(edit: Edit, node: ir.Node, word: str, parts: list[ir.Value]) -> ir.Value:
    """The bounds of both cuts, one after the other."""
    name = f"{node.outputs[0].name}.{word}"
    numbers = [static_elements(part) for part in parts]
    if all(known is not None for known in numbers):
        return edit.constant(name, np.array([number for known in numbers for number in known or ()], np.int64))
    sizes = [size[0] if (size := shape_of(part)) else None for part in parts]
    length = sum(size for size in sizes if isinstance(size, int))
    return edit.insert(node, "Concat", parts, [ir.AttrInt64("axis", 0)], like=parts[0], shape=[length], name=name)


def _cut(node: ir.Node) -> _Cut | None:
    """What a Slice cuts, if its axes and steps are known."""
    axes_of_x = rank(node.inputs[0]) if is_standard(node, "Slice") and len(node.inputs) > 3 else None
    if axes_of_x is None:
        return None
    _, starts, ends, axes, *rest = node.inputs
    known = static_elements(axes) if axes is not None else None
    steps = static_elements(rest[0]) if rest and rest[0] is not None else (1,) * len(known or ())
    if known is None or steps is None or starts is None or ends is None:
        return None
    cut = _Cut(starts, ends, tuple(axis % axes_of_x for axis in known), tuple(steps))
    types = {value.dtype for value in (starts, ends)}
    return cut if len({*cut.axes}) == len(known) and types == {ir.DataType.INT64} else None
