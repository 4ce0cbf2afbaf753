"""Elements that are repeated one by one along an axis are repeated by one function.

    Reshape(Expand(Unsqueeze(x, k), s))                       ->   RepeatInterleave(x, repeats, axis=k - 1)
    Reshape(Tile(Unsqueeze(x, k), [1, ..., n, ..., 1]))       ->   the same
    Reshape(Concat(Unsqueeze(x, k), Unsqueeze(x, k), ...))    ->   the same

It applies if the Expand changes the size of the new axis k only, to a known number, and the Reshape joins k with the
axis before. The Unsqueeze may add other axes too; then x gets these by an Unsqueeze of their own. Sound because the
elements along k are equal, and vary fastest in the joined axis. Not if another node reads a value in between.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused
from onnxlift.rewriting.idioms.parts.repetition import repetition
from onnxlift.stages import step


@step("repeat-interleave", after={"attention": "keys and values that are repeated for several heads are a part of it"})
def run(model: ir.Model) -> int:
    """Recognise repeated elements; return how many."""
    return sweep(model, {("Reshape", "Flatten"): _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    found = repetition(edit, node.outputs[0])
    if found is None or not found.is_closed:
        return
    x = found.x
    if found.added:
        axes, attributes = edit.axes(node, found.added)
        x = edit.insert(node, "Unsqueeze", [x, *axes], attributes, like=x, shape=found.shape, name=f"{x.name}.axes")
    options = [ir.AttrInt64("axis", found.axis), ir.AttrInt64("repeats", found.repeats)]
    edit.replace(node, "RepeatInterleave", [x], options, domain=DOMAIN)
    drop_unused(edit, found.nodes[1:])
