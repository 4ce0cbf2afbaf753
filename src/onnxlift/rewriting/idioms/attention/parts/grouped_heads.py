"""Keys and values that several heads of queries share (grouped-query attention), repeated for each of them.

    k.repeat_interleave(n, 1), v.repeat_interleave(n, 1), in any spelling (see `repeat_interleave.py`)

PyTorch's attention repeats them itself with `enable_gqa=True`. Both keys and values must be repeated, and give as many
heads as the queries have.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.graph.shapes import Dim, shape_of
from onnxlift.rewriting.idioms.parts.repetition import repetition


def before_repetition(
    edit: Edit, q: ir.Value, k: ir.Value, v: ir.Value
) -> tuple[ir.Value, ir.Value, list[ir.Node]] | None:
    """Return the keys and values before they were repeated, and the nodes that repeat them; None unless both are."""
    keys, values = _unrepeated(edit, k), _unrepeated(edit, v)
    if keys is None or values is None:
        return None
    heads, groups = _heads(q, k, v), _heads(keys[0], values[0])
    if len(heads) != 1 or len(groups) != 1:
        return None
    return keys[0], values[0], [*keys[1], *values[1]]


def _heads(*values: ir.Value) -> set[Dim | None]:
    """Return the numbers of heads that these values have."""
    shapes = [shape_of(value) for value in values]
    return {None if shape is None else shape[1] for shape in shapes}


def _unrepeated(edit: Edit, value: ir.Value) -> tuple[ir.Value, list[ir.Node]] | None:
    found = repetition(edit, value)
    if found is None or found.axis != 1 or found.added or len(found.shape) != 4:
        return None
    return found.x, found.nodes
