"""Write slices of different axes in a row as one Slice.

    Slice(Slice(x, axes=[2], steps=[2]), axes=[3], steps=[2])   ->   Slice(x, axes=[2, 3], steps=[2, 2])

It applies since opset 10 if starts, ends, axes and steps of both are constants, and no axis is cut by both. If others
read the inner slice, all of them must be such slices, so that it goes. Sound because cuts of different axes do not
depend on each other.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import drop_unused, made_by, readers_of
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import rank
from onnxlift.stages import step

Cuts = dict[int, tuple[int, int, int]]
"""Axis -> start, end and step."""


@step("slices", repeats=True)
def run(model: ir.Model) -> int:
    """Merge slices in a row; return how many were removed."""
    return sweep(model, {"Slice": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    value = node.inputs[0]
    inner = made_by(edit, value, "Slice")
    if inner is None or value is None or edit.is_output(value):
        return
    first, readers = _cuts(edit, inner), readers_of(edit, value)
    if (
        first is None
        or len(readers) < len(value.uses())
        or not all(_cuts_others(edit, each, first) for each in readers)
    ):
        return
    second = _cuts(edit, node)
    assert second is not None
    cuts = sorted({**first, **second}.items())
    columns = zip(*((start, end, axis, stride) for axis, (start, end, stride) in cuts), strict=True)
    words = zip(("starts", "ends", "axes", "steps"), columns, strict=True)
    given = [edit.constant(f"{node.outputs[0].name}_{word}", np.array(column, np.int64)) for word, column in words]
    edit.replace(node, "Slice", [inner.inputs[0], *given])
    drop_unused(edit, [inner])


def _cuts_others(edit: Edit, node: ir.Node, cuts: Cuts) -> bool:
    """Tell whether a node is a slice of other axes than those of `cuts`."""
    own = _cuts(edit, node) if node.op_type == "Slice" and node.domain == "" else None
    return own is not None and own.keys().isdisjoint(cuts)


def _cuts(edit: Edit, node: ir.Node) -> Cuts | None:
    """Return what a Slice cuts; None if that is computed, or written as attributes."""
    axes = rank(node.inputs[0])
    tensors = [constant(value) for value in node.inputs[1:]]
    given = [value is not None for value in node.inputs[1:]]
    if edit.opset(node) < 10 or axes is None or [tensor is not None for tensor in tensors] != given:
        return None
    columns = [None if tensor is None else [int(number) for number in tensor.numpy()] for tensor in tensors]
    starts, ends, listed, strides = (*columns, None, None)[:4]
    if starts is None or ends is None:
        return None
    places = [axis % axes for axis in (listed if listed is not None else range(len(starts)))]
    rows = zip(places, starts, ends, strides or [1] * len(starts), strict=True)
    return {axis: (start, end, stride) for axis, start, end, stride in rows}
