"""A test whether any or all of several booleans are true needs no integers.

    Cast(ReduceMax(Cast(mask, int)), bool)            ->   Any(mask)
    Cast(ReduceMin(Cast(mask, int)), bool)            ->   All(mask)
    Greater(ReduceSum(Cast(mask, int)), 0)            ->   Any(mask)
    Not(Any(Not(mask)))                               ->   All(mask)

The result is taken over the same axes. The casts are to int32 or int64, which can count any number of elements. Nobody
else reads a value in between. Sound because the integers are 0 and 1. There is one difference: of no elements, ONNX's
maximum is the smallest integer, which is true as a boolean. PyTorch's `any`, which was exported, says false.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.constants import number
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import rank
from onnxlift.ir.graph.types import DataType
from onnxlift.stages import step

_COUNTERS = (DataType.INT32, DataType.INT64)
_BY_EXTREME = {"ReduceMax": "Any", "ReduceMin": "All"}


@step("any-all")
def run(model: ir.Model) -> int:
    """Recognise tests of several booleans; return how many rewrites that took."""
    return sweep(model, {"Cast": _cast, "Greater": _counted, "Not": _negated})


def _cast(edit: Edit, node: ir.Node) -> None:
    reduced = made_by(edit, node.inputs[0], *_BY_EXTREME)
    if reduced is not None and node.outputs[0].dtype == DataType.BOOL:
        _replace(edit, node, reduced, _BY_EXTREME[reduced.op_type])


def _counted(edit: Edit, node: ir.Node) -> None:
    reduced = made_by(edit, node.inputs[0], "ReduceSum")
    if reduced is not None and number(node.inputs[1]) == 0 and rank(node.inputs[1]) == 0:
        _replace(edit, node, reduced, "Any")


def _replace(edit: Edit, node: ir.Node, reduced: ir.Node, op_type: str) -> None:
    cast = made_by(edit, reduced.inputs[0], "Cast")
    mask = cast.inputs[0] if cast is not None else None
    if cast is None or mask is None or mask.dtype != DataType.BOOL or cast.outputs[0].dtype not in _COUNTERS:
        return
    if not is_private(edit, node.inputs[0]) or not is_private(edit, reduced.inputs[0]):
        return
    axes, size = axes_of(reduced), rank(mask)
    given = len(reduced.inputs) > 1 and reduced.inputs[1] is not None
    if (
        size is None
        or not size
        or (given and axes is None)
        or (not axes and attribute(reduced, "noop_with_empty_axes", 0))
    ):
        return
    attributes = [
        ir.AttrInt64s("axes", sorted(axis % size for axis in (axes if axes else range(size)))),
        ir.AttrInt64("keepdims", attribute(reduced, "keepdims", 1)),
    ]
    edit.replace(node, op_type, [mask], attributes, domain=DOMAIN)
    drop_unused(edit, [reduced, cast])


def _negated(edit: Edit, node: ir.Node) -> None:
    found = made_by(edit, node.inputs[0], "Any", domain=DOMAIN)
    inner = made_by(edit, found.inputs[0], "Not") if found is not None else None
    if found is not None and inner is not None and is_private(edit, node.inputs[0]):
        edit.replace(node, "All", [inner.inputs[0]], found.attributes.values(), domain=DOMAIN)
        drop_unused(edit, [found, inner])
