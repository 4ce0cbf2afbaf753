"""Write a reshape that only removes or adds axes of size 1 as a Squeeze or an Unsqueeze.

1. Reshape(x, s)   ->   Squeeze(x, axes)     from (batch, 1, 4, 8) to (batch, 4, 8)
2. Reshape(x, s)   ->   Unsqueeze(x, axes)   from (batch, 8) to (batch, 1, 8)

It applies if both shapes are known, and are the same except for a run of such axes. Sound because the elements keep
their order, so the shape alone decides. The tracing exporter writes `x.view(...)` so. Our source has `x.squeeze(0)` for
it, which is another graph when exported again; and other passes have to look for one operator only.

It does not apply from (batch, 8, 1, 1) to a matrix, as behind a pooling: people write this as `x.flatten(1)`. Nor does
it apply from (batch, seq, 8) to (batch, seq, 1, 8), which may split the features into a single head
(`idioms/attention/single_heads.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.shapes import Shape, shape_of
from onnxlift.stages import step


@step("unit-axes", after={"positions": "it looks for the Reshape that flattens what is indexed"}, repeats=True)
def run(model: ir.Model) -> int:
    """Write these reshapes as Squeeze or Unsqueeze; return how many."""
    return sweep(model, {"Reshape": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    before, after = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    if before is None or after is None:
        return
    gone, new = _ones(before, after), _ones(after, before)
    to_matrix = len(after) == 2 and 0 not in gone
    is_head = len(after) == 4 and list(new) == [2]
    if gone and not to_matrix:
        inputs, attributes = edit.axes(node, gone)
        edit.replace(node, "Squeeze", [node.inputs[0], *inputs], attributes)
    elif new and not is_head:
        inputs, attributes = edit.axes(node, new)
        edit.replace(node, "Unsqueeze", [node.inputs[0], *inputs], attributes)


def _ones(longer: Shape, shorter: Shape) -> Sequence[int]:
    """Return the axes of size 1 that `longer` has and `shorter` lacks, if the shapes differ in nothing else."""
    first = next((i for i, sizes in enumerate(zip(longer, shorter, strict=False)) if len({*sizes}) > 1), len(shorter))
    axes = range(first, first + len(longer) - len(shorter))
    same = all(longer[axis] == 1 for axis in axes) and longer[axes.stop :] == shorter[first:]
    return axes if same else ()
