"""All the pieces of an axis, cut out side by side, are one split.

    x[..., :32], x[..., 32:64], x[..., 64:]   ->   Split(x, [32, 32, 64], axis)

It applies to two or more Slices in one module. Together they are the whole of an axis of known size, with each element
once. Not if there are two that the same node reads, which is one line already (`torch.cat((x[2:], x[:2]))`). Not for a
tensor of one axis: it may be a list of sizes, which are Python numbers. Sound because the nodes depend on nothing but
x.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import readers_of
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.shapes import rank
from onnxlift.ir.origin.module_paths import module_of
from onnxlift.rewriting.idioms.parts.pieces import Piece, piece
from onnxlift.stages import step


@step(
    "split",
    after={
        "unbind": "a piece of length 1 that is squeezed is an entry and no piece",
        "recurrent": "layers read their rows of the states by single cuts",
        "glu": "two halves that were cut out one by one are not taken for a split",
    },
)
def run(model: ir.Model) -> int:
    """Recognise tensors that are cut into pieces; return how many."""
    return sweep(model, {"Slice": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    first = _piece(edit, node)
    if first is None or first.x.producer() is None or rank(first.x) == 1:
        return
    users = [user for user in readers_of(edit, first.x) if module_of(user) == module_of(node)]
    cuts = {user: cut for user in dict.fromkeys(users) if (cut := _piece(edit, user)) and cut.axis == first.axis}
    nodes = sorted(cuts, key=lambda user: cuts[user].start)
    ends = [cuts[user].start + cuts[user].length for user in nodes]
    if [cuts[user].start for user in nodes] != [0, *ends[:-1]] or ends[-1] != first.size:
        return
    if len(nodes) < 2 or (len(nodes) == 2 and _have_one_reader(*nodes)):
        return
    lengths = edit.constant(f"{first.x.name}.pieces", np.array([cuts[user].length for user in nodes], np.int64))
    edit.join(nodes, "Split", [first.x, lengths], [ir.AttrInt64("axis", first.axis)], before=node)


def _piece(edit: Edit, node: ir.Node) -> Piece | None:
    if not is_standard(node, "Slice"):
        return None
    found = piece(edit, node.outputs[0])
    return found if found is not None and found.length > 0 and edit.opset(node) >= 13 else None


def _have_one_reader(first: ir.Node, second: ir.Node) -> bool:
    readers = {user for node in (first, second) for user, _ in node.outputs[0].uses()}
    return len(readers) == 1
