"""Find the keys of an attention as PyTorch takes them, (..., keys, features): the scores come from their transpose."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import divided_by_number, drop_unused, is_private, made_by, with_number
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.shapes import rank, shape_of, static_elements

_MAX_LOOKED_AT = 64
_MOST_MOVES = 3  # of queries, until their heads are in place

Item = TypeVar("Item")


@dataclass
class Keys:
    """The keys, a number that they were multiplied by before, and nodes that may be unused by now."""

    value: ir.Value
    scale: float = 1.0
    nodes: list[ir.Node] = field(default_factory=list)


def without_scale(edit: Edit, value: ir.Value | None, nodes: list[ir.Node]) -> tuple[ir.Value | None, float]:
    """Return `value` before it was multiplied by a number, and the number (1 if it was not)."""
    node = made_by(edit, value, "Mul", "Div")
    if node is None or not is_private(edit, value):
        return value, 1.0
    found = with_number(node) if node.op_type == "Mul" else divided_by_number(node)
    if found is None:
        return value, 1.0
    nodes.append(node)
    return found[0], found[1] if node.op_type == "Mul" else 1 / found[1]


def without_earlier_scale(edit: Edit, queries: ir.Value) -> float:
    """Remove the number that the queries were multiplied by before their axes were split and moved, and return it.

    Return 1 if there is none.
    """
    value: ir.Value | None = queries
    for _ in range(_MOST_MOVES):
        moved = made_by(edit, value, "Transpose", "Reshape")
        if moved is None or not is_private(edit, value):
            break
        value = moved.inputs[0]
    nodes: list[ir.Node] = []
    unscaled, scale = without_scale(edit, value, nodes)
    if value is not None and unscaled is not None:
        edit.redirect(value, unscaled)
        drop_unused(edit, nodes)
    return scale


def find_keys(edit: Edit, root: ir.Node, transposed: ir.Value, earlier: Collection[ir.Node]) -> Keys:
    """Return the keys whose transpose is `transposed`.

    Nodes that they need are inserted before `root`, unless one of the `earlier` transposes does the same already.
    """
    wider = made_by(edit, transposed, "Unsqueeze", "Reshape")
    if wider is not None:
        found = _before_new_axes(edit, root, wider, earlier)
        if found is not None:
            return found
    split = made_by(edit, transposed, "Reshape")
    if split is not None:
        found = _before_split(edit, root, split)
        if found is not None:
            return found
    node = made_by(edit, transposed, "Transpose")
    order = None if node is None else permutation(node)
    if node is None or order is None or node.inputs[0] is None:
        return Keys(_transpose(edit, root, transposed, swapped_axes(transposed), earlier))
    nodes = [node]
    source, scale = node.inputs[0], 1.0
    if is_private(edit, transposed):
        unscaled, scale = without_scale(edit, source, nodes)
        source = source if unscaled is None else unscaled
    return Keys(_transpose(edit, root, source, swapped(order), earlier), scale, nodes)


def _before_split(edit: Edit, root: ir.Node, split: ir.Node) -> Keys | None:
    """Return the keys of `Reshape(Transpose(x, p), (a, b, n, m))`, if the reshape only splits the first of three axes.

    They are the transpose and the reshape with the last two axes swapped.
    """
    node = made_by(edit, split.inputs[0], "Transpose")
    order = None if node is None else permutation(node)
    target, merged, shape = static_elements(split.inputs[1]), shape_of(split.inputs[0]), shape_of(split.outputs[0])
    if node is None or order is None or node.inputs[0] is None or target is None or merged is None or shape is None:
        return None
    if len(merged) != 3 or merged[1:] != shape[2:] or 0 in target:  # a 0 copies the size at its place
        return None
    turned = _transpose(edit, root, node.inputs[0], swapped(order), ())
    merge = made_by(edit, turned, "Reshape")
    if merge is not None and merge.inputs[0] is not None:
        turned = merge.inputs[0]  # the reshape that follows makes this one useless
    name = f"{split.outputs[0].name}.keys"
    sizes = edit.constant(f"{name}.shape", np.array(swapped(target), np.int64))
    value = edit.insert(root, "Reshape", [turned, sizes], like=turned, shape=swapped(shape), name=name)
    return Keys(value, nodes=[split, node])


def _before_new_axes(edit: Edit, root: ir.Node, wider: ir.Node, earlier: Collection[ir.Node]) -> Keys | None:
    """Return the keys of `Unsqueeze(Transpose(x, p), axis)`, if the last two axes are not new.

    They are the transpose and the unsqueeze with the last two axes swapped.
    """
    node, shape, axis = made_by(edit, wider.inputs[0], "Transpose"), shape_of(wider.outputs[0]), _new_axis(wider)
    order = None if node is None else permutation(node)
    if node is None or node.inputs[0] is None or order is None or shape is None or axis is None:
        return None
    if axis >= len(shape) - 2:
        return None
    turned = _transpose(edit, root, node.inputs[0], swapped(order), earlier)
    name = f"{wider.outputs[0].name}.keys"
    inputs, attributes = edit.axes(wider, [axis])
    value = edit.insert(root, "Unsqueeze", [turned, *inputs], attributes, like=turned, shape=swapped(shape), name=name)
    return Keys(value, nodes=[wider, node])


def _new_axis(node: ir.Node) -> int | None:
    """Return the one axis that an Unsqueeze adds, or a Reshape that does nothing else."""
    narrow, wide = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    if narrow is None or wide is None:
        return None
    places = (axis for axis in range(len(wide)) if wide == (*narrow[:axis], 1, *narrow[axis:]))
    return next(places, None)


def _transpose(
    edit: Edit, root: ir.Node, source: ir.Value, order: Sequence[int], earlier: Collection[ir.Node]
) -> ir.Value:
    """Return `source` with its axes in this order: itself, a transpose that exists, or a new one."""
    if list(order) == list(range(len(order))):
        return source
    for user, _ in islice(source.uses(), _MAX_LOOKED_AT):
        same = permutation(user) if user in earlier and user.graph is edit.graph else None
        if same is not None and list(same) == list(order):
            return user.outputs[0]
    shape = shape_of(source)
    dims = [None] * len(order) if shape is None else [shape[axis] for axis in order]
    perm = [ir.AttrInt64s("perm", order)]
    return edit.insert(root, "Transpose", [source], perm, like=source, shape=dims, name=f"{source.name}.keys")


def swapped_axes(value: ir.Value) -> list[int]:
    """Return the axes of a value, with the last two swapped."""
    axes = rank(value)
    assert axes is not None  # the idioms of attention pass over values of unknown rank
    return swapped(range(axes))


def swapped(items: Sequence[Item]) -> list[Item]:
    """Return the items with the last two swapped."""
    return [*items[:-2], items[-1], items[-2]]
