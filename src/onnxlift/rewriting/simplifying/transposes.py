"""Merge two transposes in a row.

    Transpose(Transpose(x, p), q)   ->   Transpose(x, [p[i] for i in q])

The result is x itself if that is the order it had. Always sound; the first transpose stays if somebody else reads it.
The default order (reversal) needs the rank, so nothing is done if the rank is unknown.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.axes import permutation
from onnxlift.stages import step


@step(
    "transposes",
    after={"constant-folding": "what is computed from constants is a constant under its own name by then"},
    repeats=True,
)
def run(model: ir.Model) -> int:
    """Merge pairs of Transpose nodes; return how many."""
    return sweep(model, {"Transpose": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    second = permutation(node)
    first_node = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
    first = None if first_node is None else permutation(first_node)
    if second is None or first is None or first_node is None or len(first) != len(second):
        return
    order = [first[i] for i in second]
    if order == list(range(len(order))) and edit.bypass(node, first_node.inputs[0]):
        return
    edit.replace(node, "Transpose", [first_node.inputs[0]], [ir.AttrInt64s("perm", order)])
