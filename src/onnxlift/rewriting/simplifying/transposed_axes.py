"""Remove transposes around nodes that only take axes away or add them.

1. Reduce(Transpose(x, p), axes)              ->  Reduce(x, p[axes])   if those that remain are in the order of x
2. Squeeze(Transpose(x, p), axes)             ->  Squeeze(x, p[axes])  likewise, or Transpose(Squeeze(x, p[axes]), ...)
3. Transpose(Unsqueeze(x, axes), p)           ->  Unsqueeze(x, ...)    if the axes of x stay in their order
4. Unsqueeze(Transpose(Squeeze(x, a), p), b)  ->  Transpose(x, ...)    if as many axes come as went

Reduce is any of the Reduce operators with keepdims=0. Keras models have many of these, since their channels come last
and ONNX's come second. The axes and the rank of x must be known. A transpose that others read stays for them; then rule
2 applies only if no new transpose is needed. Sound because a reduction takes all elements of an axis, and a Squeeze its
only element, wherever that axis stands; and axes of size 1 are all alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.axes import axes_of, permutation
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.stages import step

_REDUCTIONS = tuple(f"Reduce{kind}" for kind in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split())


@step(
    "transposed-axes",
    after={
        "kept-axes": "a reduction whose axes are put back is one that keeps them, wherever they are",
        "transposes": "there is one transpose, at most, in front of the node by then",
    },
    repeats=True,
)
def run(model: ir.Model) -> int:
    """Remove transposes around these nodes; return how many."""
    return sweep(
        model,
        {
            (*_REDUCTIONS, "Squeeze"): _behind_transpose,
            "Transpose": _behind_unsqueeze,
            "Unsqueeze": _behind_squeeze,
        },
    )


def _behind_transpose(edit: Edit, node: ir.Node) -> None:
    first = _maker(node.inputs[0])
    order = permutation(first) if first is not None else None
    if first is not None and order is not None:
        _without_axes(edit, node, first, order)


def _behind_unsqueeze(edit: Edit, node: ir.Node) -> None:
    first = _maker(node.inputs[0])
    if first is not None and is_standard(first, "Unsqueeze"):
        _added_elsewhere(edit, node, first)


def _behind_squeeze(edit: Edit, node: ir.Node) -> None:
    first = _maker(node.inputs[0])
    if first is None or not is_standard(first, "Transpose"):
        return
    squeeze = _maker(first.inputs[0])
    if squeeze is not None and is_standard(squeeze, "Squeeze"):
        _gone_and_back(edit, node, first, squeeze)


def _maker(value: ir.Value | None) -> ir.Node | None:
    """Return the node that computes `value` from at least one input; else None."""
    node = value.producer() if value is not None else None
    return node if node is not None and node.inputs and node.inputs[0] is not None else None


def _without_axes(edit: Edit, node: ir.Node, transpose: ir.Node, order: Sequence[int]) -> None:
    """Apply rule 1 or 2."""
    axes = axes_of(node)
    squeezes = node.op_type == "Squeeze"
    if not axes or (not squeezes and attribute(node, "keepdims", 1) != 0):
        return
    gone = {axis % len(order) for axis in axes}
    left = [order[i] for i in range(len(order)) if i not in gone]
    moved = sorted(order[i] for i in gone)
    x = transpose.inputs[0]
    in_order = left == sorted(left)
    if in_order:
        inputs, attributes = _with_axes(edit, node, moved)
        edit.replace(node, node.op_type, [x, *inputs], attributes)
        return
    shape = shape_of(x)
    alone = len(transpose.outputs[0].uses()) == 1 and not edit.is_output(transpose.outputs[0])
    if squeezes and alone and shape is not None and x is not None:
        inputs, attributes = _with_axes(edit, node, moved)
        rest = [shape[i] for i in range(len(order)) if i not in set(moved)]
        name = f"{x.name}.squeezed"
        squeezed = edit.insert(transpose, "Squeeze", [x, *inputs], attributes, like=x, shape=rest, name=name)
        place = {axis: i for i, axis in enumerate(sorted(left))}
        edit.replace(node, "Transpose", [squeezed], [ir.AttrInt64s("perm", [place[axis] for axis in left])])


def _added_elsewhere(edit: Edit, node: ir.Node, unsqueeze: ir.Node) -> None:
    """Apply rule 3."""
    order, axes = permutation(node), axes_of(unsqueeze)
    if order is None or not axes:
        return
    new = {axis % len(order) for axis in axes}
    old = [axis for axis in order if axis not in new]
    if old == sorted(old):
        inputs, attributes = edit.axes(node, [i for i, axis in enumerate(order) if axis in new])
        edit.replace(node, "Unsqueeze", [unsqueeze.inputs[0], *inputs], attributes)


def _gone_and_back(edit: Edit, node: ir.Node, transpose: ir.Node, squeeze: ir.Node) -> None:
    """Apply rule 4."""
    gone, order, new = axes_of(squeeze), permutation(transpose), axes_of(node)
    if not gone or order is None or not new:
        return
    rank = len(order) + len(new)
    ones, places = ({axis % rank for axis in axes} for axes in (gone, new))
    if not len(ones) == len(places) == len(gone) == len(new):
        return
    kept = [axis for axis in range(rank) if axis not in ones]
    moved, added = iter(kept[axis] for axis in order), iter(sorted(ones))
    perm = [next(added if place in places else moved) for place in range(rank)]
    edit.replace(node, "Transpose", [squeeze.inputs[0]], [ir.AttrInt64s("perm", perm)])


def _with_axes(edit: Edit, node: ir.Node, axes: Sequence[int]) -> tuple[list[ir.Value], list[ir.Attr]]:
    """Return the inputs and attributes of `node` for other axes. The axes stay an input or an attribute, as they
    were."""
    if len(node.inputs) > 1:
        inputs = [edit.constant(f"{node.outputs[0].name}.axes", np.array(axes, np.int64))]
        return inputs, [each for each in node.attributes.values() if each.name != "axes"]
    others = [each for each in node.attributes.values() if each.name != "axes"]
    return [], [ir.AttrInt64s("axes", axes), *others]
