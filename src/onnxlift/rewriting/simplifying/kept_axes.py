"""Let a reduction keep its axes if they are added again behind it.

    Unsqueeze(ReduceMean(x, axes, keepdims=0), axes)   ->   ReduceMean(x, axes, keepdims=1)

The same goes for the other reductions. The newer exporter computes a variance so, and the idiom for a layer
normalisation expects axes that are kept. It applies if both nodes have the same axes, which are known, and nobody else
reads the reduced value. Sound because an axis that is kept has size 1, like one that is added.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.stages import step

_REDUCTIONS = tuple(
    f"Reduce{name}" for name in ("Mean", "Sum", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
)


@step("kept-axes", after={"unit-axes": "a reshape that puts the axes back is an Unsqueeze by then"}, repeats=True)
def run(model: ir.Model) -> int:
    """Keep the axes of such reductions; return how many."""
    return sweep(model, {"Unsqueeze": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    reduced = node.inputs[0]
    reduction = None if reduced is None else reduced.producer()
    if reduced is None or reduction is None or not is_standard(reduction, *_REDUCTIONS):
        return
    shape, gone, added = shape_of(reduction.inputs[0]), axes_of(reduction), axes_of(node)
    if not gone or not added or shape is None or attribute(reduction, "keepdims", 1) != 0:
        return
    if {axis % len(shape) for axis in gone} != {axis % len(shape) for axis in added} or len(gone) != len(added):
        return
    if len(reduced.uses()) != 1 or edit.is_output(reduced) or reduction.graph is not node.graph:
        return
    options = [option for name, option in reduction.attributes.items() if name != "keepdims"]
    edit.replace(node, reduction.op_type, reduction.inputs, [*options, ir.AttrInt64("keepdims", 1)], named_by=reduction)
