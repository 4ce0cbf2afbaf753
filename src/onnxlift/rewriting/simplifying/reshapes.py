"""Merge several reshapes in a row: only the last one counts.

1. R2(R1(x))                      ->  x                  if the result has the shape of x
2. Reshape(R1(x), s)              ->  Reshape(x, s)
3. Unsqueeze(Unsqueeze(x, a), b)  ->  Unsqueeze(x, c)    with the axes of both, counted in the result
4. R2(R1(x))                      ->  Unsqueeze(x, c)    if the result has the shape of x and axes of size 1 besides
5. R2(Transpose(R1(x)))           ->  x                  if the result has the shape of x, and only axes of size 1 move
6. Reshape(Transpose(R1(x)), s)   ->  Reshape(x, s)      if only axes of size 1 move

R is Reshape, Flatten, Squeeze or Unsqueeze. They keep the order of the elements, so the shape alone decides. The same
is true of a transpose that moves only axes of size 1; models cut an image that is a single window so.

Rules 1, 4 and 5 need shapes known to be equal (equal names or equal numbers). Rules 2 and 6 do not apply if s holds a
0, which copies a size of the reshaped value, unless x has the same size there. Nor do they apply if elements of s are
unknown, since one of them may be 0. Rule 2 does not apply either if a module computes x and reshapes it, and the module
around that reshapes it again: the first shape is that of the inner module's result. In each rule the first node stays
if somebody else reads it.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.axes import axes_of, permutation
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import elements_of, same_shape, shape_of
from onnxlift.ir.origin.module_paths import told_module
from onnxlift.stages import step

_RESHAPING = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


@step(
    "reshapes",
    after={
        "constant-folding": "what is computed from constants is a constant under its own name by then",
        "unit-axes": "axes that are only added or taken away are not merged into another reshape",
        "kept-axes": "the axes that it puts back must not be merged with others",
        "reshape-targets": "a target that copies a size needs the reshape before it",
    },
    repeats=True,
)
def run(model: ir.Model) -> int:
    """Merge chains of reshapes; return how many rewrites."""
    return sweep(model, {_RESHAPING: _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    while node.inputs and node.inputs[0] is not None:
        middle = node.inputs[0]
        first = middle.producer()
        if first is not None and _moves_only_ones(first):
            first = None if first.inputs[0] is None else first.inputs[0].producer()
            source = None if first is None or not is_standard(first, *_RESHAPING) else first.inputs[0]
            if source is None or (same_shape(source, node.outputs[0]) and edit.bypass(node, source)):
                return
            if node.op_type == "Reshape" and _means_the_same(node, source, middle):
                node.replace_input_with(0, source)
                edit.changes += 1
                continue
            return
        if first is None or not is_standard(first, *_RESHAPING) or first.inputs[0] is None:
            return
        source = first.inputs[0]
        if same_shape(source, node.outputs[0]) and edit.bypass(node, source):
            return
        if node.op_type == "Reshape" and _means_the_same(node, source, middle) and not _is_result(first, node):
            node.replace_input_with(0, source)  # and go on with the node that makes `source`
            edit.changes += 1
            continue
        if node.op_type == first.op_type == "Unsqueeze":
            _merge_unsqueezes(edit, node, first)
        else:
            _only_unsqueeze(edit, node, source)
        return


def _is_result(first: ir.Node, reader: ir.Node) -> bool:
    """Tell whether a module inside that of `reader` gives out what it has computed in the shape that `first` makes."""
    module, around = told_module(first), told_module(reader)
    source = first.inputs[0].producer() if first.inputs[0] is not None else None
    if module is None or around is None or source is None or not module.startswith(f"{around}." if around else ""):
        return False
    made_in = told_module(source)
    return module != around and made_in is not None and f"{made_in}.".startswith(f"{module}.")


def _moves_only_ones(node: ir.Node) -> bool:
    """Tell whether a node is a Transpose that keeps the order of all axes except those of size 1."""
    order, shape = permutation(node), shape_of(node.inputs[0]) if node.inputs else None
    if order is None or shape is None:
        return False
    moved = [axis for axis in order if shape[axis] != 1]
    return moved == sorted(moved)


def _means_the_same(node: ir.Node, source: ir.Value, middle: ir.Value) -> bool:
    """Tell whether the target shape has the same meaning for `source` as for `middle`."""
    target = elements_of(node.inputs[1]) if len(node.inputs) > 1 else None
    if target is None or None in target:
        return False
    copied = [i for i, size in enumerate(target) if size == 0]
    if not copied or attribute(node, "allowzero", 0) == 1:
        return True
    before, after = shape_of(source), shape_of(middle)
    if before is None or after is None:
        return False
    return all(i < min(len(before), len(after)) and before[i] == after[i] for i in copied)


def _merge_unsqueezes(edit: Edit, node: ir.Node, first: ir.Node) -> None:
    inner, outer = axes_of(first), axes_of(node)
    shape = shape_of(node.outputs[0])
    if inner is None or outer is None or shape is None or len(node.inputs) != 2:
        return
    new = {axis % len(shape) for axis in outer}
    middle_rank = len(shape) - len(new)
    old = [i for i in range(len(shape)) if i not in new]
    axes = sorted(new | {old[axis % middle_rank] for axis in inner})
    source = first.inputs[0]
    constant = edit.constant(f"{node.outputs[0].name}.axes", np.array(axes, np.int64))
    edit.replace(node, "Unsqueeze", [source, constant])


def _only_unsqueeze(edit: Edit, node: ir.Node, source: ir.Value) -> None:
    """Apply rule 4."""
    before, after = shape_of(source), shape_of(node.outputs[0])
    if before is None or after is None or 1 in before or [size for size in after if size != 1] != list(before):
        return
    inputs, attributes = edit.axes(node, [axis for axis, size in enumerate(after) if size == 1])
    edit.replace(node, "Unsqueeze", [source, *inputs], attributes)
