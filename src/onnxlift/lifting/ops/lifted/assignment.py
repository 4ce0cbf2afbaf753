"""Assignments to a part of a tensor, with PyTorch's out-of-place functions: nothing is changed in place."""

from __future__ import annotations

from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.lifting.ops.axes import as_written
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.ops.registry import op


@op("SelectScatter", domain=DOMAIN)
def SelectScatter(n: Node, data: Tensor, updates: Tensor, *, axis: int, index: int) -> Result:
    """`data` with `data[:, index] = updates`."""
    return data.select_scatter(updates, dim=as_written(axis, data.type.rank), index=index)


@op("SliceScatter", domain=DOMAIN)
def SliceScatter(
    n: Node, data: Tensor, updates: Tensor, *, axis: int, start: int, end: int | None = None, step: int
) -> Result:
    """`data` with `data[:, start:end:step] = updates`."""
    bounds = {"start": start or None, "end": end, "step": None if step == 1 else step}
    written = {name: bound for name, bound in bounds.items() if bound is not None}
    return data.slice_scatter(updates, dim=as_written(axis, data.type.rank), **written)
