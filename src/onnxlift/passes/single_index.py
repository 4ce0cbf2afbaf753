"""A lookup by one index array is a Gather.

    GatherND(x, Unsqueeze(i, -1))   ->   Gather(x, i)

PyTorch's exporter writes `x[i]` so. It applies without batch dimensions, if the new axis is the last one: the indices
are then tuples of one element each, the positions along the first axis of x. Negative ones count from the end in both.
"""

from __future__ import annotations

import onnx_ir as ir

from ..ir.node_view import shape_of
from .edit import Edit, attribute, axes_of, is_standard, sweep


def run(model: ir.Model) -> int:
    """Write such lookups as Gather; gives how many."""
    return sweep(model, _visit)


def _visit(edit: Edit, node: ir.Node) -> None:
    if not is_standard(node, "GatherND") or attribute(node, "batch_dims", 0) != 0:
        return
    data, indices = node.inputs
    unsqueeze = None if indices is None else indices.producer()
    shape = shape_of(indices)
    if unsqueeze is None or shape is None or not is_standard(unsqueeze, "Unsqueeze"):
        return
    if [axis % len(shape) for axis in axes_of(unsqueeze) or ()] == [len(shape) - 1]:
        edit.replace(node, "Gather", [data, unsqueeze.inputs[0]])
