"""Find out what an input is for, from the nodes that read it: an index into a table, a mask, a length, a size.

With merely random integers a model may fail (an index outside the embedding), or the result tells nothing (a mask
without a one). So each input is followed through nodes that only move its elements, to the nodes that compute with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.types import type_of

Kind = Literal["", "index", "mask", "length", "size", "position"]

# Operators that only move elements, or select some -> the input whose elements they move.
_MOVES = {
    **dict.fromkeys(
        ["Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Expand", "Flatten", "Transpose", "Slice", "Tile"], 0
    ),
    **dict.fromkeys(["Gather", "GatherElements", "GatherND", "Split", "Pad", "Clip"], 0),
}
_MOVES_ALL = frozenset({"Concat", "Where"})
_COMPARES = frozenset({"Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Not", "And", "Or", "Xor"})
# Operator -> the inputs that are sizes or numbers of something.
_SIZES = {
    "Range": (0, 1, 2),
    "ConstantOfShape": (0,),
    "Reshape": (1,),
    "Expand": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Loop": (0,),
    "OneHot": (1,),
    "Resize": (3,),
}
_INDEXES = {"Gather": 1, "GatherElements": 1, "GatherND": 1, "ScatterND": 1, "ScatterElements": 1}
_MAX_NODES = 2000
_FEWEST_COUNTED = 3  # numbers; an input that is compared with 0 and 1 may be a mask


@dataclass
class InputRole:
    """The use that a model makes of an input. An index must be below `bound`, a length at most `bound`, if known."""

    kind: Kind = ""
    bound: int | None = None
    seen: set[Kind] = field(default_factory=set)


def find_role(value: ir.Value) -> InputRole:
    """Find the role of a graph input, first from the nodes that read it and then from its name."""
    role = InputRole()
    for node, position, moved in _consumers(value):
        kind, bound = _use(node, position, moved)
        if kind:
            role.seen.add(kind)
        if bound is not None:
            role.bound = bound if role.bound is None else min(bound, role.bound)
    order: tuple[Kind, ...] = ("length", "index", "size", "mask")
    role.kind = next((kind for kind in order if kind in role.seen), "")
    name = (value.name or "").lower()
    named: list[tuple[Callable[[str], bool], Kind]] = [
        (lambda text: "mask" in text, "mask"),
        (lambda text: "position" in text or "pos_id" in text, "position"),
        (lambda text: "lengths" in text or text.endswith(("_len", "_lens", "_length")), "length"),
    ]
    for matches, kind in named:
        if matches(name) and role.kind in ("", "index", "mask"):
            role.kind = kind
    return role


def _consumers(value: ir.Value) -> list[tuple[ir.Node, int, ir.Value]]:
    """Return the nodes that compute with the value, or with a moved form of it.

    Each comes with the position of the input, and with the value that it reads there."""
    found: list[tuple[ir.Node, int, ir.Value]] = []
    queue, seen = [value], {value}
    while queue and len(seen) < _MAX_NODES:
        current = queue.pop()
        for node, position in current.uses():
            moves = _MOVES.get(node.op_type) == position or node.op_type in _MOVES_ALL
            if node.op_type == "Where" and position == 0:
                moves = False
            if moves and not (node.op_type == "Cast" and _is_bool(node.outputs[0])):
                new = [output for output in node.outputs if output not in seen]
                queue += new
                seen.update(new)
            else:
                found.append((node, position, current))
    return found


def _use(node: ir.Node, position: int, value: ir.Value) -> tuple[Kind, int | None]:
    """Return what a node uses its input for, and the bound of its elements, if there is one."""
    if node.op_type == "Embedding" and position == 1:
        return "index", _size(node.inputs[0], 0)
    if _INDEXES.get(node.op_type) == position:
        return "index", _index_bound(node, value)
    if node.op_type == "OneHot" and position == 0:
        depth = node.inputs[1].const_value if node.inputs[1] is not None else None
        return "index", None if depth is None else int(depth.numpy().reshape(-1)[0])
    if node.op_type == "Equal" and (count := _counted(node.inputs[1 - position])) is not None:
        return "index", count
    if node.op_type in ("LSTM", "GRU", "RNN") and position == 4:
        return "length", _size(node.inputs[0], 0)
    if node.op_type == "ReverseSequence" and position == 1:
        return "length", None
    if position in _SIZES.get(node.op_type, ()):
        return "size", None
    is_condition = (node.op_type in ("Where", "If") and position == 0) or (node.op_type == "Loop" and position == 1)
    if is_condition or node.op_type in _COMPARES or (node.op_type == "Cast" and _is_bool(node.outputs[0])):
        return "mask", None
    return "", None


def _counted(value: ir.Value | None) -> int | None:
    """Return the length of a constant that counts 0, 1, 2, ...; None for any other. What is compared with it becomes a
    row of a one and zeros, as by OneHot."""
    if value is None or value.const_value is None or value.const_value.size < _FEWEST_COUNTED:
        return None
    numbers = value.const_value.numpy().reshape(-1)
    return int(numbers.size) if np.array_equal(numbers, np.arange(numbers.size)) else None


def _index_bound(node: ir.Node, indices: ir.Value) -> int | None:
    if node.op_type in ("GatherND", "ScatterND"):
        return _smallest(node.inputs[0])
    axis = node.attributes.get("axis")
    return _size(node.inputs[0], 0 if axis is None or axis.is_ref() else axis.as_int())


def _smallest(value: ir.Value | None) -> int | None:
    sizes = [size for size in type_of(value).shape or () if isinstance(size, int)]
    return min(sizes, default=None)


def _size(value: ir.Value | None, axis: int) -> int | None:
    size = type_of(value).dim(axis)
    return size if isinstance(size, int) else None


def _is_bool(value: ir.Value) -> bool:
    return value.dtype == ir.DataType.BOOL
