"""A global pool whose empty axes are dropped at once is a mean.

    Flatten(GlobalAveragePool(x), axis=1)   ->   SpatialMean(x)

and the same with Reshape or Squeeze for Flatten, or a ReduceMean that keeps its axes for the pool: `x.mean((2, 3))`.
It applies when the second node's result has exactly the first two sizes of x, and nothing else reads the pool's.
"""

from __future__ import annotations

import onnx_ir as ir

from ..ir.domain import DOMAIN
from ..ir.node_view import shape_of, static_elements
from ..passes.edit import Edit, attribute, is_standard, sweep
from .match import is_private, made_by


def run(model: ir.Model) -> int:
    """Recognise global means; gives how many."""
    return sweep(model, _visit)


def _visit(edit: Edit, node: ir.Node) -> None:
    if not is_standard(node, "Flatten", "Reshape", "Squeeze"):
        return
    pool = made_by(edit, node.inputs[0], "GlobalAveragePool", "ReduceMean")
    if pool is None or not is_private(edit, node.inputs[0]):
        return
    before, after = shape_of(pool.inputs[0]), shape_of(node.outputs[0])
    if before is None or after is None or len(before) < 3 or after != before[:2] or None in after:
        return
    if pool.op_type == "GlobalAveragePool" or _averages_space(pool, len(before)):
        edit.replace(node, "SpatialMean", [pool.inputs[0]], domain=DOMAIN, named_by=pool)
        edit.drop(pool)


def _averages_space(node: ir.Node, rank: int) -> bool:
    """Whether a ReduceMean reduces all axes but the first two."""
    axes = attribute(node, "axes", None)
    if axes is None and len(node.inputs) > 1:
        axes = static_elements(node.inputs[1])
    known = axes is not None and all(isinstance(axis, int) for axis in axes)
    return known and sorted(int(axis) % rank for axis in axes or ()) == list(range(2, rank))
