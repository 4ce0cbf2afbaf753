"""Write a lookup by one index array as a Gather.

1. GatherND(x, Unsqueeze(i, -1))   ->   Gather(x, i)
2. GatherND(x, c)                  ->   Gather(x, c[..., 0])   for a constant c of shape (..., 1)

PyTorch's exporter writes `x[i]` so, and may compute the Unsqueeze itself. It applies without batch dimensions, if the
new axis is the last one. The indices are then tuples of one element each, the positions along the first axis of x. Both
operators count negative indices from the end.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.stages import step


@step("single-index", repeats=True)
def run(model: ir.Model) -> int:
    """Write these lookups as Gather; return how many."""
    return sweep(model, {"GatherND": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if attribute(node, "batch_dims", 0) != 0:
        return
    data, indices = node.inputs
    positions = None if indices is None else _positions(edit, indices)
    if positions is not None:
        edit.replace(node, "Gather", [data, positions])


def _positions(edit: Edit, indices: ir.Value) -> ir.Value | None:
    """Return the indices without their last axis, if that axis was added; else None."""
    unsqueeze, shape, tensor = indices.producer(), shape_of(indices), constant(indices)
    if tensor is not None and shape is not None and shape[-1] == 1:
        return edit.constant(f"{indices.name}.positions", tensor.numpy()[..., 0])
    if unsqueeze is None or shape is None or not is_standard(unsqueeze, "Unsqueeze"):
        return None
    is_last = [axis % len(shape) for axis in axes_of(unsqueeze) or ()] == [len(shape) - 1]
    return unsqueeze.inputs[0] if is_last else None
