"""Axes that were brought to the front to be indexed, and brought back, are indexed where they are.

1. Transpose(Index(Transpose(x, (1, 2, 0)), a, b), (1, 0))   ->   Index(x, a, b, axes=(1, 2))      x[:, a, b]
2. Index(Transpose(x, (0, 2, 1)), a, b)                      ->   Index(x, a, b, axes=(0, 2))      x[a, :, b]
3. Transpose(Gather(Transpose(x, (1, 0, 2)), i), (1, 0, 2))  ->   Gather(x, i, axis=1)             x[:, i]

ONNX indexes the first axes only. PyTorch puts the axes of the indices where the indexed axes were if these are side by
side, and first otherwise. So the second transpose must do exactly that in the first and third rule. There is none in
the second rule, nor where the indices are single numbers, which leave no axis. The axes that are not indexed keep their
order. Not if another node reads the picked elements before they are brought back; the transposed x may have other
readers.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, LiftedOperator, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import rank
from onnxlift.stages import step


@step(
    "indexed-axes",
    after={
        "advanced-indexing": "the index arrays are apart by then",
        "flat-indices": "the index arrays are apart by then",
        "linear-resize": "its lookups have transposes around them, too",
        "nearest-resize": "its lookups have transposes around them, too",
    },
)
def run(model: ir.Model) -> int:
    """Index axes where they are; return how often."""
    return sweep(model, {("Gather", LiftedOperator("Index")): _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    is_gather = node.op_type == "Gather"
    if attribute(node, "axis", 0) != 0 or "axes" in node.attributes:
        return
    front = made_by(edit, node.inputs[0], "Transpose")
    order = None if front is None else permutation(front)
    if front is None or order is None or front.inputs[0] is None:
        return
    arrays, axes_left = node.inputs[1:], rank(node.outputs[0])
    axes, others = list(order[: len(arrays)]), list(order[len(arrays) :])
    if others != sorted(others) or axes_left is None:
        return
    first, joint = min(axes), axes_left - len(others)
    is_together = sorted(axes) == list(range(first, first + len(axes)))
    root = node
    if is_together and first > 0 and joint > 0:
        back = _reader(edit, node.outputs[0])
        found = None if back is None else permutation(back)
        if back is None or found is None or list(found) != _places(joint, len(others), first):
            return
        root = back
    inputs = [front.inputs[0], *(arrays[axes.index(axis)] for axis in sorted(axes))]
    if is_gather:
        edit.replace(root, "Gather", inputs, [ir.AttrInt64("axis", axes[0])], domain="")
    else:
        edit.replace(root, "Index", inputs, [ir.AttrInt64s("axes", sorted(axes))], domain=DOMAIN)
    drop_unused(edit, [node, front])


def _places(joint: int, others: int, first: int) -> Sequence[int]:
    """Return the order of axes that moves the first `joint` axes, those of the indices, behind `first` other axes."""
    rest = list(range(joint, joint + others))
    return [*rest[:first], *range(joint), *rest[first:]]


def _reader(edit: Edit, value: ir.Value) -> ir.Node | None:
    if not is_private(edit, value):
        return None
    ((user, _),) = value.uses()
    return user if user.graph is edit.graph else None
