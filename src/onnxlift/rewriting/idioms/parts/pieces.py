"""Pieces of a tensor that a `Slice` or a `Split` cuts out."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import made_by
from onnxlift.ir.graph.axes import static_slice
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of


@dataclass(frozen=True)
class Piece:
    """A piece `x[start : start + length]` along one axis, counted from the front, which has `size` elements."""

    x: ir.Value
    axis: int
    start: int
    length: int
    size: int


def piece(edit: Edit, value: ir.Value | None) -> Piece | None:
    """Return `value` as a piece of another tensor, along one axis whose size is known."""
    node = made_by(edit, value, "Slice", "Split")
    x = None if node is None else node.inputs[0]
    whole, shape = shape_of(x), shape_of(value)
    if node is None or x is None or value is None or whole is None or shape is None:
        return None
    axis, start = _slice_start(node) if node.op_type == "Slice" else _split_start(node, value)
    if axis is None or start is None or not -len(whole) <= axis < len(whole):
        return None
    size, length = whole[axis], shape[axis]
    if not isinstance(size, int) or not isinstance(length, int):
        return None
    return Piece(x, axis % len(whole), max(start + size, 0) if start < 0 else start, length, size)


def _slice_start(node: ir.Node) -> tuple[int | None, int | None]:
    cut = static_slice(node)
    if cut is None or cut[2] != (1,):
        return None, None
    return cut[1][0], cut[0][0]


def _split_start(node: ir.Node, value: ir.Value) -> tuple[int | None, int | None]:
    axis = attribute(node, "axis", 0)
    before = [shape_of(part) for part in node.outputs[: node.outputs.index(value)]]
    lengths = [None if shape is None or axis is None else shape[axis] for shape in before]
    known = [length for length in lengths if isinstance(length, int)]
    return axis, sum(known) if len(known) == len(lengths) else None
