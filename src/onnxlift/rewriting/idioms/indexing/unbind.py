"""All the entries of an axis, taken out one by one, are taken out at once.

    Squeeze(x[i : i + 1], axis)                                ->   Gather(x, i, axis)
    Gather(x, 0, axis), Gather(x, 1, axis), ... to the last    ->   Unbind(x, axis)

The first rule takes one entry in any spelling. The piece of length 1 is a Slice, or an output of a Split, and nobody
else reads it. The Squeeze may be a Reshape that removes that axis and does nothing else.

The second rule applies to three to eight entries (`readers_of`) of an axis of known size. The graph itself reads each
at least once, in one module. Two entries are as readable as `x[0]` and `x[1]`. x is computed: rows of a stored table
are looked up where they are needed. x has more than one axis: with one it may be a list of sizes, which are Python
numbers. Sound because the nodes depend on nothing but x.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_private, readers_of
from onnxlift.ir.graph.axes import axis_of
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.shapes import rank, shape_of, static_elements
from onnxlift.ir.origin.module_paths import module_of
from onnxlift.rewriting.idioms.parts.pieces import piece
from onnxlift.stages import step

FEWEST = 3


@step(
    "unbind",
    after={
        "adaptive-pool": "it adds the entries of its windows one by one",
        "unrolled-rnn": "each step reads one entry of the sequence",
        "recurrent": "layers read their rows of the states",
        "multihead-attention": "queries, keys and values are three entries of one tensor",
    },
)
def run(model: ir.Model) -> int:
    """Recognise tensors that are taken apart along an axis; return how many."""
    return sweep(model, {("Squeeze", "Reshape"): _index}) + sweep(model, {"Gather": _unbind})


def _index(edit: Edit, node: ir.Node) -> None:
    """Write a piece of length 1 without its axis as an index."""
    if not is_private(edit, node.inputs[0]):
        return
    cut, part = piece(edit, node.inputs[0]), node.inputs[0]
    if cut is None or part is None or cut.length != 1 or not _removes(node, cut.axis):
        return
    source = part.producer()
    index = edit.constant(f"{node.outputs[0].name}.index", np.array(cut.start, np.int64))
    edit.replace(node, "Gather", [cut.x, index], [ir.AttrInt64("axis", cut.axis)])
    drop_unused(edit, [source] if source is not None else [])


def _removes(node: ir.Node, axis: int) -> bool:
    """Tell whether a Squeeze or Reshape removes this axis, which has one entry, and does nothing else."""
    before, after = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    return before is not None and after == (*before[:axis], *before[axis + 1 :])


def _unbind(edit: Edit, node: ir.Node) -> None:
    entry = _entry(node)
    x = None if entry is None else node.inputs[0]
    if entry is None or x is None or x.producer() is None or x.dtype == ir.DataType.STRING or rank(x) == 1:
        return
    axis, _, size = entry
    if size < FEWEST:
        return
    entries: dict[int, ir.Node] = {}
    for user in readers_of(edit, x):
        found = _entry(user)
        if found is not None and found[0] == axis and module_of(user) == module_of(node):
            entries.setdefault(found[1], user)
    if len(entries) == size:
        nodes = [entries[index] for index in range(size)]
        edit.join(nodes, "Unbind", [x], [ir.AttrInt64("axis", axis)], domain=DOMAIN, before=node)


def _entry(node: ir.Node) -> tuple[int, int, int] | None:
    """Return the axis, counted from the front, the index, and the size of the axis, if `node` takes one entry."""
    if not is_standard(node, "Gather"):
        return None
    index, shape = static_elements(node.inputs[1]), shape_of(node.inputs[0])
    axis = None if shape is None else axis_of(node, len(shape))
    if index is None or shape is None or axis is None or shape_of(node.inputs[1]) != ():
        return None
    size = shape[axis]
    return (axis, index[0] % size, size) if isinstance(size, int) and -size <= index[0] < size else None
